/** Lists the peers, and which of them this machine has. */
import { existsSync } from 'node:fs'
import { startBeanstalkd } from './beanstalkd.ts'
import type { PeerDefinition } from './peer.ts'
import { startRabbitmq } from './rabbitmq.ts'

export const PEERS: readonly PeerDefinition[] = [
  {
    name: 'RabbitMQ',
    protocol: 'amqp',
    program: '/usr/lib/rabbitmq/bin/rabbitmq-server',
    debianPackage: 'rabbitmq-server',
    start: startRabbitmq,
  },
  {
    name: 'beanstalkd',
    protocol: 'beanstalk',
    program: '/usr/bin/beanstalkd',
    debianPackage: 'beanstalkd',
    start: startBeanstalkd,
  },
]

export const isInstalled = ({ program }: PeerDefinition): boolean => existsSync(program)

/** Names each peer that cannot take part, and the command that installs it. */
export function describeMissingPeers(): string[] {
  const missing = PEERS.filter((peer) => !isInstalled(peer))
  return missing.map(
    ({ name, debianPackage }) =>
      `${name} is not installed, so it is left out: apt-get install ${debianPackage}`,
  )
}
