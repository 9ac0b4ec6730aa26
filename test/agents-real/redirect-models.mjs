/**
 * Loaded into a worker's process before its own code: the models' name is out in the world there, at an address that
 * sandboxes may reach, and whoever connects to it comes to this machine instead. Nothing of the worker's is replaced,
 * only the name server and the route that a test has none of.
 */
import { Resolver } from 'node:dns/promises'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

const NAME = 'models.test'
/** Public by every list; nothing is ever sent there. */
const ADDRESS = '20.0.0.20'

const notFound = () => Object.assign(new Error('there is no such name'), { code: 'ENOTFOUND' })

Resolver.prototype.resolve4 = async (name) => {
  if (name === NAME) return [ADDRESS]
  throw notFound()
}
Resolver.prototype.resolve6 = async () => {
  throw notFound()
}

const { connect } = net
net.connect = (options, ...more) =>
  connect(options?.host === ADDRESS ? { ...options, host: '127.0.0.1' } : options, ...more)
syncBuiltinESMExports()
