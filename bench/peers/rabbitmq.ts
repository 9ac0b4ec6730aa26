/**
 * Starts RabbitMQ with a data folder, a cookie and a port mapper of its own, all of which end with it.
 *
 * All its ports are on the loopback address. No plugin is loaded. The jobs go through a quorum queue, which syncs its
 * log before it confirms.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BenchResources } from '../bench-resources.ts'
import { freePort } from '../served-host.ts'
import type { PeerServer } from './peer.ts'
import { waitForPort } from './wait-for-port.ts'

export async function startRabbitmq(resources: BenchResources, program: string): Promise<PeerServer> {
  const folder = resources.createFolder('rabbitmq')
  const ports = { amqp: await freePort(), mapper: await freePort(), nodes: await freePort() }
  const env = { ...process.env, ...environmentFor(folder, ports) }
  // The broker would otherwise start a mapper that outlives it.
  const mapper = resources.start('epmd', ['-port', String(ports.mapper), '-address', '127.0.0.1'], env)
  await waitForPort(mapper, ports.mapper)
  const broker = resources.start(program, [], env)
  await waitForPort(broker, ports.amqp)
  return {
    pid: broker.pid,
    port: ports.amqp,
    async stop() {
      await broker.stop()
      await mapper.stop()
      resources.removeFolder(folder)
    },
  }
}

interface BrokerPorts {
  readonly amqp: number
  readonly mapper: number
  readonly nodes: number
}

function environmentFor(folder: string, { amqp, mapper, nodes }: BrokerPorts): NodeJS.ProcessEnv {
  const [config, plugins, data, log] = ['rabbitmq.conf', 'enabled_plugins', 'data', 'log'].map((name) =>
    join(folder, name),
  ) as [string, string, string, string]
  mkdirSync(data)
  mkdirSync(log)
  writeFileSync(config, `listeners.tcp.default = 127.0.0.1:${amqp}\n`)
  writeFileSync(plugins, '[].\n')
  return {
    // The cookie is created in the home folder.
    HOME: folder,
    RABBITMQ_NODENAME: 'bench@localhost',
    RABBITMQ_MNESIA_BASE: data,
    RABBITMQ_LOG_BASE: log,
    RABBITMQ_PID_FILE: join(folder, 'pid'),
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_CONF_ENV_FILE: '/dev/null',
    RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
    RABBITMQ_NODE_PORT: String(amqp),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_DIST_PORT: String(nodes),
    ERL_EPMD_PORT: String(mapper),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
    // With input allowed, the script becomes the broker, so that a signal to its pid reaches the broker.
    RABBITMQ_ALLOW_INPUT: '1',
    RABBITMQ_SERVER_START_ARGS: '-noinput',
  }
}
