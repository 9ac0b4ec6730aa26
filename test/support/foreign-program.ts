/**
 * A program of another user of the machine that listens on a port, keeps what it receives, and answers like a host that
 * knows nothing. Only root can start a process of another user.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempFolder } from './temp-folder.ts'
import { closeAfterTest } from './test-resources.ts'
import { until } from './until.ts'

/** Not in the file of users, so that messages name the number. */
export const FOREIGN_UID = 23_417

export interface ForeignProgram {
  readonly port: number
  readonly url: string
  /** Everything that was sent to it. */
  readonly received: () => string
  readonly connections: () => number
}

export interface ForeignProgramPlan {
  readonly port?: number
  /** How long the program leaves connections in its queue before it accepts the first one. */
  readonly lateMs?: number
  /** The whole answer to each request. */
  readonly answer?: string
  readonly uid?: number
}

const PROGRAM = `
const { createServer } = require('node:net')
const { createHash } = require('node:crypto')
const { writeSync } = require('node:fs')
const { port, lateMs, answer } = JSON.parse(process.argv[1])
const report = (...words) => writeSync(1, JSON.stringify(words) + '\\n')
const server = createServer((socket) => {
  report('connected')
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    const text = bytes.toString('latin1')
    report('received', text)
    const key = /sec-websocket-key: (\\S+)/i.exec(text)?.[1]
    if (key === undefined) {
      if (text.includes('HTTP/1.1')) socket.end(answer)
      return
    }
    const accept = createHash('sha1').update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
    const head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']
    socket.write([...head, 'Sec-WebSocket-Accept: ' + accept, '', ''].join('\\r\\n'))
  })
})
server.listen(port, '127.0.0.1', () => {
  report('listening', server.address().port)
  // The kernel completes connections meanwhile, and nobody accepts them.
  if (lateMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lateMs)
})
`

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'

export async function startForeignProgram(plan: ForeignProgramPlan = {}): Promise<ForeignProgram> {
  const { port = 0, lateMs = 0, answer = ANSWER, uid = FOREIGN_UID } = plan
  const child: ChildProcess = spawn(
    process.execPath,
    ['-e', PROGRAM, JSON.stringify({ port, lateMs, answer })],
    {
      uid,
      gid: uid,
      cwd: '/',
      env: {},
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  closeAfterTest(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout?.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  const reported = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line): unknown[] => JSON.parse(line))
  await until('the foreign program listens', () => reported().length > 0)
  const bound = Number(reported()[0]?.[1])
  return {
    port: bound,
    url: `http://127.0.0.1:${bound}`,
    received: () =>
      reported()
        .flatMap(([what, bytes]) => (what === 'received' ? [String(bytes)] : []))
        .join(''),
    connections: () => reported().filter(([what]) => what === 'connected').length,
  }
}

/** A data directory whose host was killed: its `launch.json` names a port that anybody may take. */
export function killedHost(url: string, token: string): string {
  const dataDir = tempFolder()
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify({ pid: 1, url, token }), { mode: 0o600 })
  return dataDir
}
