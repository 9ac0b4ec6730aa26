/**
 * Loaded into a worker's process before its own code: connections to the vendor of agentA go to a server of a test on
 * this machine. Nothing else changes; the worker checks the certificate of the vendor's name as always.
 *
 * SWITCHYARD_TEST_VENDOR_PORT names a file with the server's port.
 */
import { readFileSync } from 'node:fs'
import net from 'node:net'

const VENDOR = 'api.anthropic.com'

const { connect } = net.Socket.prototype
net.Socket.prototype.connect = function (...args) {
  // Callers that have normalized their arguments pass them in a list.
  const [options] = Array.isArray(args[0]) ? args[0] : args
  if (options?.host === VENDOR) {
    options.host = '127.0.0.1'
    options.port = Number(readFileSync(process.env.SWITCHYARD_TEST_VENDOR_PORT, 'utf8'))
  }
  return connect.apply(this, args)
}
