/** The parts from which a page's listener is opened, and what it is then. */
import type { Clock, Log } from '../../core/ports.ts'
import type { Address } from '../listener.ts'
import type { HttpListener } from '../listener-port.ts'
import type { Reply } from '../reply.ts'
import type { HostForwarder } from './host-forwarder.ts'
import type { ProgramSource } from './program-sockets.ts'

export interface PageServerOptions {
  readonly listener: HttpListener
  readonly clock: Clock
  readonly log: Log
  readonly address: Address
  /** The option or setting that chooses the port, for the message about a port that is taken. */
  readonly portSetting: string
  /** The command that prints a new link. */
  readonly command: string
  /** The paths of the host's sockets that the page reaches. */
  readonly sockets: readonly string[]
  /** Whether the page reaches a path of the host by requests. */
  readonly forwards: (path: string) => boolean
  /** Answers for browsers that are signed in, by path. */
  readonly documents?: ReadonlyMap<string, () => Reply | Promise<Reply>>
  /** A source for programs that listen at its path, with a code in the query. */
  readonly programs?: { readonly path: string; readonly source: ProgramSource }
  /** The folder with the page's files. */
  readonly folder: string
  readonly forwarder: HostForwarder
  /** Presented by other commands of the same user, which get new codes for it. */
  readonly linkSecret: string
}

export interface PageServer {
  readonly port: number
  /** A link with a new code: good once, and for a minute. */
  createLink(): string
  /** Closes all sockets with the reason, then the port. */
  close(reason: string): Promise<void>
}
