/**
 * The document of a run's terminal: resumes the run's sandbox, and shows its session.
 *
 * Every key belongs to the session, but for Ctrl ] and then D, which leave it. A lost connection is opened again, and
 * the worker draws the whole screen anew.
 */
import { FitAddon } from '@xterm/addon-fit'
import { SearchAddon } from '@xterm/addon-search'
import { Terminal } from '@xterm/xterm'
import { createBrowserConnection } from '../../../client/browser.ts'
import { createClient, fillPath } from '../../../client/client.ts'
import { InputSender } from '../../../client/input-sender.ts'
import { REQUEST_LINES } from '../../../client/request-lines.ts'
import type { AttachOutput } from '../../../protocol/dashboard.ts'
import { LeaveKeys } from './leave-keys.ts'
import { terminalColors } from './terminal-colors.ts'

const RETRY_PAUSES_MS = [500, 1_000, 2_000, 4_000, 5_000]
const SCROLLBACK_LINES = 10_000

const runId = new URLSearchParams(location.search).get('run') ?? ''
const connection = createBrowserConnection({
  fetch: (...request) => fetch(...request),
  WebSocket,
  origin: location.origin,
})
const client = createClient(connection)
const status = document.getElementById('status')

const showStatus = (text: string): void => {
  if (status !== null) status.textContent = text
}

const terminal = new Terminal({
  allowProposedApi: false,
  cursorBlink: false,
  fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
  fontSize: 13,
  scrollback: SCROLLBACK_LINES,
  screenReaderMode: true,
  theme: terminalColors(document.documentElement),
})
const fit = new FitAddon()
terminal.loadAddon(fit)
terminal.loadAddon(new SearchAddon())

/** The session's process has ended, or the person has left. */
let isOver = false
let failures = 0

const sender = new InputSender(
  {
    after: (ms, run) => {
      const timer = setTimeout(run, ms)
      return () => clearTimeout(timer)
    },
  },
  () => showStatus('The session does not take input as fast as it comes.'),
)

function start(): void {
  const place = document.getElementById('terminal')
  if (place === null) return
  terminal.open(place)
  fit.fit()
  new ResizeObserver(() => fit.fit()).observe(place)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    terminal.options.theme = terminalColors(document.documentElement)
  })
  terminal.onResize(({ cols, rows }) => sender.resize({ cols, rows }))
  terminal.onData((text) => sender.send(text))
  terminal.onBinary((text) => sender.send(text))
  const keys = new LeaveKeys()
  terminal.attachCustomKeyEventHandler((event) => {
    if (keys.isLeaving(event)) leave()
    return true
  })
  terminal.focus()
  void connect()
}

async function connect(): Promise<void> {
  if (isOver) return
  showStatus('Opening the session …')
  try {
    await client.resumeRun({ id: runId })
  } catch (error) {
    showStatus(error instanceof Error ? error.message : String(error))
    retry(isLasting(error))
    return
  }
  const path = fillPath(REQUEST_LINES.attachSocket.split(' ')[1] ?? '', { id: runId })
  const socket = connection.dial({ url: location.origin }, path, {
    onOpen: () => {
      failures = 0
      terminal.reset()
      sender.connect(
        { send: (frame) => socket.send(JSON.stringify(frame)), backlog: () => socket.backlog() },
        { cols: terminal.cols, rows: terminal.rows },
      )
      showStatus('Connected. Ctrl ] then D leaves.')
    },
    onText: (text) => receive(text),
    onEnd: ({ reason }) => {
      sender.disconnect()
      if (isOver) return
      showStatus(reason)
      retry(false)
    },
  })
}

function receive(text: string): void {
  // The host checks the frames that it sends.
  const frame = JSON.parse(text) as AttachOutput
  if (frame.type === 'data') terminal.write(frame.data)
  else if (frame.type === 'error') showStatus(frame.message)
  else {
    isOver = true
    showStatus(`The session has ended with ${frame.code}. Open the terminal again to go on with it.`)
  }
}

function retry(isFinal: boolean): void {
  if (isOver || isFinal) return
  const ms = RETRY_PAUSES_MS[Math.min(failures++, RETRY_PAUSES_MS.length - 1)]
  setTimeout(() => void connect(), ms)
}

/** Refusals other than those of a host that is away or busy stay as they are. */
function isLasting(error: unknown): boolean {
  const code: unknown = Reflect.get(Object(error), 'status')
  return typeof code === 'number' && code >= 400 && code < 500
}

/** The page around the frame closes it; a document of its own goes to the run. */
function leave(): void {
  isOver = true
  if (parent === window) location.assign(`/runs/${encodeURIComponent(runId)}`)
  else parent.postMessage('leave terminal', location.origin)
}

start()
