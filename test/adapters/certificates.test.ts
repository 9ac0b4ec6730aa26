/** Certificates and host keys are checked by every part of the product, whatever its environment says. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import ssh2 from 'ssh2'
import { runTypeScript } from '../support/child-process.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { closeAfterTest } from '../support/test-resources.ts'

/** These variables turn the checks of Node, git and curl off. */
const UNCHECKED = {
  NODE_TLS_REJECT_UNAUTHORIZED: '0',
  GIT_SSL_NO_VERIFY: '1',
  GIT_SSH_COMMAND: 'ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null',
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'http.sslVerify',
  GIT_CONFIG_VALUE_0: 'false',
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** A server whose certificate no authority has signed. @param requests what it receives */
async function startForgedServer(folder: string, requests: string[]): Promise<number> {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x'.split(' ')
  const files = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert]
  execFileSync('openssl', [...made, ...files], { stdio: 'ignore' })
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    response.writeHead(200, { connection: 'close' }).end('{}')
  })
  server.on('upgrade', ({ url }, socket) => {
    requests.push(`UPGRADE ${url}`)
    socket.destroy()
  })
  return await portOf(server)
}

async function startTunnelProxy(tunnels: string[]): Promise<number> {
  const proxy = createHttpServer().on('connect', ({ url = '' }, client) => {
    tunnels.push(url)
    const outer = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      outer.pipe(client).pipe(outer)
    })
    client.on('error', () => outer.destroy())
    outer.on('error', () => client.destroy())
  })
  return await portOf(proxy)
}

async function startForgedSshServer(folder: string, logins: string[]): Promise<number> {
  const key = join(folder, 'host_key')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-m', 'PEM', '-f', key])
  const server = new ssh2.Server({ hostKeys: [readFileSync(key)] }, (client) => {
    client.on('error', () => {})
    client.on('authentication', (context) => {
      logins.push(context.method)
      context.accept()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(() => void server.close())
  return (server.address() as AddressInfo).port
}

test('no part talks to a server whose certificate or host key it does not trust', async () => {
  const folder = tempFolder()
  const [requests, tunnels, logins]: string[][] = [[], [], []]
  const [port, proxyPort, sshPort] = [
    await startForgedServer(folder, requests ?? []),
    await startTunnelProxy(tunnels ?? []),
    await startForgedSshServer(folder, logins ?? []),
  ]
  const addresses = [
    `https://127.0.0.1:${port}`,
    `ssh://git@127.0.0.1:${sshPort}/a.git`,
    `http://127.0.0.1:${proxyPort}`,
  ]
  const child = runTypeScript('test/support/certificate-child.ts', [...addresses, folder], UNCHECKED)
  expect(await child.ended).toBe(0)
  const [control, ...outcomes] = child.lines
  expect(control).toBe('the environment turns checks off => 200')
  expect(outcomes).toHaveLength(11)
  for (const outcome of outcomes)
    expect(outcome).toMatch(/self.signed|certificate verif|Host key verification failed/i)
  expect(requests).toEqual(['GET /'])
  expect(logins).toEqual([])
  expect(tunnels).toHaveLength(2)
})
