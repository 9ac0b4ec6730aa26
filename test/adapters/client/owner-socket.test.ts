/** The host's socket in its data directory, which programs of its user take where the kernel proves no connection. */
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realClock } from '../../../bin/process/clock.ts'
import { openOwnerSocket } from '../../../bin/programs/serve/owner-socket.ts'
import { resolveHost } from '../../../bin/programs/worker/resolve-host.ts'
import { createClient } from '../../../client/client.ts'
import type { HostAddress, SocketEnd } from '../../../client/connection.ts'
import { HostUnreachable } from '../../../client/errors.ts'
import { findHostOf, SOCKET_FOLDER } from '../../../client/find-host.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import { createDialer } from '../../../worker/dialer.ts'
import { FOREIGN_UID } from '../../support/foreign-program.ts'
import { createRecordingLog } from '../../support/recording-log.ts'
import { testAsRoot } from '../../support/skips.ts'
import { tempFolder } from '../../support/temp-folder.ts'
import { closeAfterTest, openTestServer, TOKEN } from '../../support/test-resources.ts'

/** Another user's program at the port that the launch file names. */
async function listenAsAnother() {
  let received = ''
  const server = createServer((socket) => {
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":true}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => server.close())
  return { port: (server.address() as AddressInfo).port, received: () => received }
}

async function startHost() {
  const [server, another] = await Promise.all([openTestServer(), listenAsAnother()])
  const dataDir = tempFolder()
  const log = createRecordingLog()
  const socket = await openOwnerSocket(dataDir, { host: '127.0.0.1', port: server.port }, log, 'darwin')
  if (socket === undefined) throw new Error('there is no socket')
  closeAfterTest(() => socket.close())
  const launch = { url: `http://127.0.0.1:${another.port}`, token: TOKEN, socket: socket.name }
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify(launch))
  const path = join(dataDir, SOCKET_FOLDER, socket.name)
  return { ...server, another, dataDir, socket, path }
}

const clientOf = (at: HostAddress) => createClient({ address: () => at, send: sendByNode, dial: dialByNode })

const dial = (at: HostAddress): Promise<{ frames: string[]; end: SocketEnd }> =>
  new Promise((resolve) => {
    const frames: string[] = []
    const socket = dialByNode(at, '/ws', {
      onOpen: () => {},
      onText: (text) => {
        frames.push(text)
        socket.close()
      },
      onEnd: (end) => resolve({ frames, end }),
    })
  })

const dialAsWorker = (dataDir: string): Promise<string> =>
  new Promise((resolve) => {
    const log = createRecordingLog()
    const route = resolveHost({ hostDataDir: dataDir }, log)
    const connection = createDialer({ clock: realClock, log, ...route }).dial(
      { onOpen: () => resolve('opened'), onText: () => {}, onClose: resolve },
      { kind: 'credential', workerId: 'wk-1', secret: 'wc-the-secret-of-this-worker' },
    )
    closeAfterTest(() => connection.close())
  })

test('requests, sockets and workers take it, and send nothing to what listens at the port', async () => {
  const { dataDir, another } = await startHost()
  const at = findHostOf(dataDir)
  expect(await clientOf(at).health()).toMatchObject({ ok: true, version: expect.any(String) })
  expect((await dial(at)).frames).toEqual([expect.stringContaining('"type":"hello"')])
  expect(await dialAsWorker(dataDir)).toBe('opened')
  expect(another.received()).toBe('')
})

test.each([
  ['that was killed', (path: string) => writeFileSync(path, '')],
  ['that has ended', () => {}],
])('a host %s gets no replacement by what listens at its port', async (_, leave) => {
  const { dataDir, socket, path, another } = await startHost()
  socket.close()
  leave(path)
  const at = findHostOf(dataDir)
  await expect(clientOf(at).health()).rejects.toBeInstanceOf(HostUnreachable)
  expect((await dial(at)).end.reason).toMatch(/ECONNREFUSED|ENOENT/)
  expect(await dialAsWorker(dataDir)).toMatch(/ECONNREFUSED|ENOENT/)
  expect(another.received()).toBe('')
})

test('its folder is its owner’s alone, and holds nothing of earlier starts', async () => {
  const { dataDir, path, port, socket } = await startHost()
  expect(statSync(join(dataDir, SOCKET_FOLDER)).mode & 0o777).toBe(0o700)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const next = await openOwnerSocket(dataDir, { host: '::1', port }, createRecordingLog(), 'darwin')
  // The end of a host that was replaced.
  socket.close()
  expect(readdirSync(join(dataDir, SOCKET_FOLDER))).toEqual([next?.name])
  next?.close()
})

testAsRoot('another user cannot connect to it', async () => {
  const { dataDir, path } = await startHost()
  chmodSync(dataDir, 0o755)
  const script = `require('net').connect(${JSON.stringify(path)}).on('error', ({ code }) => console.log(code))`
  const { stdout } = spawnSync(process.execPath, ['-e', script], {
    uid: FOREIGN_UID,
    gid: FOREIGN_UID,
    cwd: '/',
  })
  expect(stdout.toString().trim()).toBe('EACCES')
})

test('there is none where the kernel names the user, and where the path is too long', async () => {
  const log = createRecordingLog()
  const management = { host: '127.0.0.1', port: 1 }
  expect(await openOwnerSocket(tempFolder(), management, log, 'linux')).toBeUndefined()
  expect(log.lines).toEqual([])
  expect(
    await openOwnerSocket(join(tempFolder(), 'd'.repeat(100)), management, log, 'darwin'),
  ).toBeUndefined()
  expect(JSON.stringify(log.lines)).toContain('--data-dir')
})

test('a host starts where its data directory takes no socket, and says so', async () => {
  const log = createRecordingLog()
  const noFolder = join(tempFolder(), 'file')
  writeFileSync(noFolder, '')
  expect(await openOwnerSocket(noFolder, { host: '127.0.0.1', port: 1 }, log, 'darwin')).toBeUndefined()
  expect(JSON.stringify(log.lines)).toMatch(/takes no socket.*--data-dir/)
})

test('a worker whose host has gone learns it as the end of a connection', async () => {
  const dataDir = tempFolder()
  // Errors of the file system are of another realm in a test, so the words differ.
  expect(await dialAsWorker(dataDir)).toMatch(/no host is running for |launch\.json cannot be read/)
})
