/** A peer is a queue of another project that does the same work in the same run of the bench, if it is installed. */
import type { BenchResources } from '../bench-resources.ts'
import type { QueueProtocol } from '../raw/queue-load-protocol.ts'

export type PeerName = 'RabbitMQ' | 'beanstalkd'

export interface PeerDefinition {
  readonly name: PeerName
  readonly protocol: QueueProtocol
  /** The program that its package installs. */
  readonly program: string
  readonly debianPackage: string
  start(resources: BenchResources, program: string): Promise<PeerServer>
}

export interface PeerServer {
  /** Its processor time includes that of its children. */
  readonly pid: number
  readonly port: number
  stop(): Promise<void>
}
