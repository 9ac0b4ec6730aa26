/**
 * The program that people start: it runs the client commands from their bundle, with the code that V8 compiled for the
 * same version of Node when the bundle was built. Compiling anew costs a fifth of the start, and a third of that of a
 * host or a worker, which have bundles of their own.
 *
 * V8 refuses code of another version or of another source, and then it compiles the source. A status in a pipe is a part
 * of this file: reading compiled code would take longer than compiling so little.
 */
import { existsSync, fstatSync, readFileSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { ANSWER_MARKS } from '../client/answer-marks.ts'
import type { HostAddress } from '../client/connection.ts'
import { findHost } from '../client/find-host.ts'
import { hostHeaders } from '../client/host-headers.ts'
import { openProven } from '../client/proven-socket.ts'
import type { REQUEST_LINES } from '../client/request-lines.ts'
import { SOURCE_HEADER } from '../protocol/audit.ts'
import { HTTP_ANSWER_BYTES_MAX } from '../protocol/limits.ts'
import { emptyCoreDumps } from './process/core-dumps.ts'
import { resolveDataDir } from './process/data-dir.ts'
import { EXIT } from './process/exit.ts'

/** Node’s own object for the stream takes as long to create as a request. */
const STDOUT = 1

// ---- a status in a pipe --------------------------------------------------------------------------------------------

const ANSWER_MS_MAX = 60_000
const HEAD_BYTES_MAX = 16 * 1024
/** Lines of tables that are longer than this program. */
const REQUEST_LINE: (typeof REQUEST_LINES)['readStatus'] = 'GET /api/status'
const MARK: (typeof ANSWER_MARKS)['readStatus'] = 'health'
/** In lower case. */
const SUCCESS = 'http/1.1 200 '
const LENGTH = '\r\ncontent-length:'

/**
 * `status --json` in a pipe, which prompts and bars of desktops ask for all day: little more than one request over a
 * bare connection.
 *
 * Nothing is printed before all is known, and false is returned for whatever is unusual: no host, an older one without
 * this route, TLS, an answer in another form. The launcher then runs the whole command, which asks again and explains
 * the failure.
 */
async function printStatus(dataDir: string | undefined): Promise<boolean> {
  emptyCoreDumps()
  let socket: Socket | undefined
  const timer = setTimeout(() => socket?.destroy(), ANSWER_MS_MAX)
  try {
    const at = await findHost(resolveDataDir(dataDir), process.env)
    const url = new URL(at.url)
    if (url.protocol !== 'http:') return false
    socket = await openProven(url, at.owner)
    const text = await readAnswer(socket, requestFor(url, at))
    // Another program may have the port, and the whole command says so.
    if (!Object.hasOwn(Object(JSON.parse(text)), MARK)) return false
    // Node frees its memory at a normal end, which costs a tenth of the request.
    if (isPrinted(`${text}\n`)) process.exit(EXIT.done)
    return true
  } catch {
    return false
  } finally {
    clearTimeout(timer)
    socket?.destroy()
  }
}

function requestFor({ host, pathname }: URL, at: HostAddress): string {
  const [method, path] = REQUEST_LINE.split(' ')
  const headers = { host, connection: 'close', ...hostHeaders(at), [SOURCE_HEADER]: 'command' }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${pathname.replace(/\/$/, '')}${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** Rejects where the answer is no success of the usual form, or ends too early. The socket is left to its caller. */
function readAnswer(socket: Socket, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    let body: BodyPlace | undefined
    socket.on('close', () => reject(new Error('no whole answer')))
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
      try {
        body ??= findBody(Buffer.concat(chunks))
      } catch (error) {
        reject(error)
      }
      if (body !== undefined && bytes >= body.end)
        resolve(Buffer.concat(chunks).toString('utf8', body.start, body.end))
    })
    socket.write(request)
  })
}

interface BodyPlace {
  readonly start: number
  readonly end: number
}

/** Undefined while the head is not whole. Throws for an answer in chunks, and for one that is no success. */
function findBody(answer: Buffer): BodyPlace | undefined {
  const headEnd = answer.indexOf('\r\n\r\n')
  if (headEnd < 0 && answer.length <= HEAD_BYTES_MAX) return undefined
  const head = answer.toString('latin1', 0, headEnd).toLowerCase()
  const named = head.indexOf(LENGTH)
  const length = Number.parseInt(head.slice(named + LENGTH.length), 10)
  if (!head.startsWith(SUCCESS) || named < 0 || !(length <= HTTP_ANSWER_BYTES_MAX))
    throw new Error('an unusual answer')
  const start = headEnd + 4
  return { start, end: start + length }
}

/** Returns false while a reader that is slow has more to come, for which the stream of Node waits. */
function isPrinted(text: string): boolean {
  const bytes = Buffer.from(text)
  let written = 0
  try {
    while (written < bytes.length) written += writeSync(STDOUT, bytes, written)
  } catch (error) {
    const isClosed = error instanceof Error && 'code' in error && error.code === 'EPIPE'
    // A reader who has seen enough is no failure.
    if (!isClosed) process.stdout.on('error', () => {}).write(bytes.subarray(written))
    return isClosed
  }
  return true
}

// ---- every other command -------------------------------------------------------------------------------------------

/** The bundle is a function with the names that CommonJS gives to a file. */
type Bundle = (
  exports: object,
  require: NodeJS.Require,
  module: { readonly exports: object },
  filename: string,
  dirname: string,
  loadProgram: (name: string) => Promise<unknown>,
) => void

const [command, format, option, dataDir, ...more] = process.argv.slice(2)
const isQuick =
  command === 'status' &&
  format === '--json' &&
  (option === undefined || (option === '--data-dir' && dataDir !== undefined && more.length === 0)) &&
  !isTerminal()
const runCommands = () => runBundle(join(__dirname, 'client-commands.js'))

if (isQuick) void printStatus(dataDir).then((isPrinted) => isPrinted || runCommands())
else runCommands()

/** Modules of Node are loaded only where they are needed: each takes a fiftieth of the request. */
function isTerminal(): boolean {
  try {
    return fstatSync(STDOUT).isCharacterDevice() && require('node:tty').isatty(STDOUT)
  } catch {
    return false
  }
}

/** Bundles are ASCII, which is read in a third of the time of UTF-8. */
function runBundle(path: string): object {
  const { Script }: typeof import('node:vm') = require('node:vm')
  const script = new Script(readFileSync(path, 'latin1'), {
    filename: path,
    cachedData: readCode(`${path}.code`),
  })
  const run: Bundle = script.runInThisContext()
  const own = { exports: {} }
  run(own.exports, require, own, path, dirname(path), loadProgram)
  return own.exports
}

// A script with compiled code can't import modules by itself.
async function loadProgram(name: string): Promise<unknown> {
  const path = join(__dirname, 'programs', name)
  return existsSync(`${path}.cjs`) ? runBundle(`${path}.cjs`) : import(`${path}.js`)
}

function readCode(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined
  }
}
