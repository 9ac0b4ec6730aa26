/**
 * A fake host whose attach socket the test controls, and a shell in a real pseudo-terminal that runs the real command.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { type IPty, spawn } from '@lydell/node-pty'
import { Terminal } from '@xterm/headless'
import { keepReading } from '../../build/recording/keep-reading.ts'
import { SOURCE_HEADER } from '../../protocol/audit.ts'
import type { AttachInput, AttachOutput } from '../../protocol/dashboard.ts'
import { installedCommand, installedPath } from './command-process.ts'
import { encodeCloseFrame, type SocketPeer, startSocketServer } from './socket-server.ts'
import { tempFolder } from './temp-folder.ts'
import { closeAfterTest, TOKEN } from './test-resources.ts'
import { until } from './until.ts'

export interface TerminalHost {
  readonly dataDir: string
  readonly url: string
  /** HTTP requests in order, as method and path. */
  readonly requests: string[]
  /** The programs that these requests and the views named as their sources. */
  readonly sources: Set<string | undefined>
  /** Called for each new view. */
  onView: (view: TerminalHostView) => void
  /** Views so far. */
  readonly views: TerminalHostView[]
  /** Status of the replies to requests. */
  status: number
  /** Whether requests get no reply. */
  isUnresponsive: boolean
  /** Bytes to send instead of upgrading the next views. */
  refusal: string | undefined
  /** Count of refused views. */
  refusedViews: number
}

/** Encodes a host's HTTP reply that refuses a view. */
export function encodeReply(status: number, body: string): string {
  return `HTTP/1.1 ${status} No\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

export class TerminalHostView {
  readonly peer: SocketPeer

  constructor(peer: SocketPeer) {
    this.peer = peer
  }

  frames(): AttachInput[] {
    // The command under test sends these frames, and tests check them.
    return this.peer.receivedTexts.map((text) => JSON.parse(text) as AttachInput)
  }

  typed(): string {
    return this.frames()
      .map((frame) => (frame.type === 'input' ? frame.data : ''))
      .join('')
  }

  sizes(): string[] {
    return this.frames().flatMap((frame) => (frame.type === 'resize' ? [`${frame.cols}x${frame.rows}`] : []))
  }

  send(frame: AttachOutput): void {
    this.peer.send(JSON.stringify(frame))
  }

  print(data: string): void {
    this.send({ type: 'data', data })
  }

  close(code: number, reason: string): void {
    this.peer.socket.end(encodeCloseFrame(code, reason))
  }

  disconnect(): void {
    this.peer.socket.destroy()
  }
}

export async function startTerminalHost(dataDir = tempFolder()): Promise<TerminalHost> {
  const views: TerminalHostView[] = []
  const asked: string[] = []
  const sources = new Set<string | undefined>()
  const note = ({ headers }: IncomingMessage) => sources.add(headers[SOURCE_HEADER]?.toString())
  const server = await startSocketServer(
    undefined,
    (peer) => {
      note(peer.request)
      const view = new TerminalHostView(peer)
      views.push(view)
      host.onView(view)
    },
    (request, response) => {
      note(request)
      asked.push(`${request.method} ${request.url}`)
      if (host.isUnresponsive) return
      const isKnown = request.headers.authorization === `Bearer ${TOKEN}`
      const reply = isKnown
        ? { status: 'completed', ticket: { identifier: 'ENG-1' }, error: 'no such run' }
        : { error: 'token?' }
      response.writeHead(isKnown ? host.status : 401).end(JSON.stringify(reply))
    },
    () => {
      if (host.refusal !== undefined) host.refusedViews += 1
      return host.refusal
    },
  )
  const url = `http://127.0.0.1:${server.port}`
  const host: TerminalHost = {
    dataDir,
    url,
    requests: asked,
    sources,
    views,
    onView: () => {},
    status: 200,
    isUnresponsive: false,
    refusal: undefined,
    refusedViews: 0,
  }
  const launch = { pid: process.pid, version: '0', startedAt: '', url, token: TOKEN }
  writeFileSync(join(dataDir, 'launch.json'), JSON.stringify(launch))
  return host
}

// ---- the terminal ----------------------------------------------------------------------------------------------------

export interface CommandTerminal {
  readonly pty: IPty
  /** All bytes that reached the terminal. */
  readonly bytes: () => Buffer
  readonly text: () => string
  /** The terminal's screen and modes after these bytes. */
  readonly screen: () => Promise<Terminal>
  type(text: string | Buffer): void
  /** The process of the command, not of its shell. */
  commandPid(): number
  /** Resolves to the terminal's settings before and after the command, and to its exit code. */
  waitForEnd(): Promise<{ readonly before: string; readonly after: string; readonly code: number }>
}

/**
 * The shell prints the terminal's line discipline (`stty -g`) before and after the command. The shell stays until the end of
 * its input, because a terminal without processes may appear empty before its last output was read.
 */
const SCRIPT =
  'trap : INT; echo "before=$(stty -g)"; "$@"; code=$?; echo "after=$(stty -g)"; echo "code=$code;"; cat >/dev/null'

/** The first one ends a partial line, the second one is the end of input. */
const END_OF_INPUT = '\x04\x04'

export function runInTerminal(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  size = { cols: 91, rows: 27 },
): CommandTerminal {
  const pty = spawn('/bin/sh', ['-c', SCRIPT, 'sh', process.execPath, installedCommand(), ...args], {
    name: env.TERM ?? 'xterm-256color',
    ...size,
    // `null` delivers bytes; the package's types know only text.
    encoding: null,
    env: { HOME: process.env.HOME, TERM: 'xterm-256color', ...env, PATH: installedPath(env.PATH) },
  })
  const pieces: Buffer[] = []
  let isOver = false
  pty.onData((piece) => void pieces.push(Buffer.from(piece)))
  const stopReading = keepReading(pty)
  pty.onExit(() => {
    isOver = true
    stopReading()
  })
  closeAfterTest(() => {
    stopReading()
    if (!isOver) pty.kill('SIGKILL')
  })
  const bytes = () => Buffer.concat(pieces)
  const text = () => bytes().toString()
  return {
    pty,
    bytes,
    text,
    type: (typed) => pty.write(typed as string),
    screen: async () => {
      const terminal = new Terminal({ ...size, allowProposedApi: true })
      await new Promise<void>((done) => terminal.write(bytes(), done))
      return terminal
    },
    commandPid: () => {
      const pid = Number(readFileSync(`/proc/${pty.pid}/task/${pty.pid}/children`, 'utf8').trim())
      // A signal to process 0 would reach this process group.
      if (!(pid > 0)) throw new Error('the command is not running')
      return pid
    },
    waitForEnd: async () => {
      await until('the end of the command', () => /code=\d+;/.test(text())).catch((error) => {
        throw new Error(`${error.message}\n${processesOn(pty.pid)}\n${JSON.stringify(text().slice(-4_000))}`)
      })
      pty.write(END_OF_INPUT)
      const reply = (name: string) => new RegExp(`${name}=([0-9a-f:]+)`).exec(text())?.[1] ?? ''
      // The command may print a link, whose code has no semicolon behind its digits.
      const code = Number(/code=(\d+);/.exec(text())?.[1])
      return { before: reply('before'), after: reply('after'), code }
    },
  }
}

/** Returns the kernel functions in which the shell and its command wait, for the error message. */
function processesOn(shell: number): string {
  const readProc = (pid: string, file: string): string => readFileSync(`/proc/${pid}/${file}`, 'utf8').trim()
  try {
    const children = readProc(`${shell}`, `task/${shell}/children`).split(' ').filter(Boolean)
    return [`${shell}`, ...children]
      .map((pid) => `${readProc(pid, 'comm')}: ${readProc(pid, 'wchan')}`)
      .join(', ')
  } catch {
    return 'the shell has ended'
  }
}
