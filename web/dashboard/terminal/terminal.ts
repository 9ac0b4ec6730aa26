/**
 * The document of a run's terminal: attaches to the session of the run, whose sandbox the host boots when it must.
 *
 * Every key belongs to the session, but for Ctrl ] and then a letter. A lost connection is opened again, and the worker
 * draws the whole screen anew. Output passes the filter of the command `attach`, because an agent's output must not type
 * into its session, once for each terminal that shows it.
 */
import { FitAddon } from '@xterm/addon-fit'
import { SearchAddon } from '@xterm/addon-search'
import { type ITheme, Terminal } from '@xterm/xterm'
import { type AttachmentClock, stayAttached } from '../../../client/attachment.ts'
import type { HostAddress } from '../../../client/connection.ts'
import { HostNotFound, HostRefusal, isPassing } from '../../../client/errors.ts'
import { InputSender } from '../../../client/input-sender.ts'
import { TERMINAL_COLUMNS_MAX, TERMINAL_ROWS_MAX } from '../../../protocol/limits.ts'
import { messageOf } from '../../../protocol/message-of.ts'
import { connection, host } from '../state/host.ts'
import { PREFERENCES_KEY, readPreferences } from '../state/preferences.ts'
import { BoundedScreen } from './bounded-screen.ts'
import { CommandKeys, PREFIX_BYTE } from './command-keys.ts'
import { type EndWords, endWords, errorWords, sentence } from './end-words.ts'

const SCROLLBACK_LINES = 10_000
/** Programs choose their colours without knowing the theme. */
const CONTRAST = 4.5
const SIGNED_OUT = 401

/** The page's own colours, so that both themes are legible. */
const NAMES = {
  foreground: '--text',
  background: '--surface',
  cursor: '--accent',
  cursorAccent: '--surface',
  selectionBackground: '--accent-soft',
  black: '--text',
  red: '--bad',
  green: '--good',
  yellow: '--warn',
  blue: '--accent',
  magenta: '--merged',
  cyan: '--accent',
  white: '--text-2',
  brightBlack: '--text-3',
  brightRed: '--bad',
  brightGreen: '--good',
  brightYellow: '--warn',
  brightBlue: '--accent',
  brightMagenta: '--merged',
  brightCyan: '--accent',
  brightWhite: '--text',
} as const satisfies Partial<Record<keyof ITheme, string>>

const runId = new URLSearchParams(location.search).get('run') ?? ''
const place = elementOf('terminal', HTMLElement)
const status = elementOf('status', HTMLElement)
const again = elementOf('again', HTMLElement)
const clock: AttachmentClock = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  monotonic: () => performance.now(),
}

applyTheme()
const terminal = new Terminal({
  cursorBlink: false,
  fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
  fontSize: 13,
  minimumContrastRatio: CONTRAST,
  screenReaderMode: true,
  scrollback: SCROLLBACK_LINES,
  theme: terminalColors(document.documentElement),
})
const fit = new FitAddon()
const screen = new BoundedScreen(terminal)
const keys = new CommandKeys()
const sender = new InputSender(clock, (isFull) => {
  if (isFull) showStatus({ text: 'The session does not take input as fast as it comes.', isProblem: true })
  else showConnected()
})
let leaving = new AbortController()
let openFindBar = (): void => {}

function start(): void {
  terminal.loadAddon(fit)
  terminal.open(place)
  terminal.textarea?.setAttribute('aria-label', 'Terminal input')
  followTheme(terminal)
  fit.fit()
  new ResizeObserver(() => fit.fit()).observe(place)
  openFindBar = startFindBar(terminal)
  startCopying()
  terminal.onResize(() => sender.resize(size()))
  terminal.onData(type)
  terminal.onBinary(type)
  terminal.attachCustomKeyEventHandler(isForSession)
  again.addEventListener('click', () => void attach())
  terminal.focus()
  void attach()
}

async function attach(): Promise<void> {
  again.hidden = true
  leaving = new AbortController()
  showStatus({ text: 'Opening the session …', isProblem: false })
  terminal.focus()
  let isShown = false
  const words = await stayAttached({
    runId,
    dial: connection.dial,
    findHost,
    clock,
    inputSender: sender,
    size,
    draw: (text) => {
      if (!isShown) showConnected()
      isShown = true
      screen.draw(text)
    },
    note: (text) => {
      isShown = false
      showStatus({ text: `${sentence(text)} …`.replace('. …', ' …'), isProblem: true })
    },
    leave: leaving.signal,
    onRedrawNeeded: (listener) => screen.onRedrawNeeded(listener),
    isPatient: true,
  }).then(endWords, errorWords)
  showStatus(words)
  again.hidden = false
}

/** A browser does not say why a socket was refused, so a request asks before. */
async function findHost(): Promise<HostAddress> {
  try {
    await host.health()
  } catch (error) {
    const isSignedOut = error instanceof HostRefusal && error.status === SIGNED_OUT
    if (isSignedOut || !isPassing(error)) throw error
    throw new HostNotFound(messageOf(error), '')
  }
  return connection.address()
}

const size = () => ({
  cols: Math.min(terminal.cols, TERMINAL_COLUMNS_MAX),
  rows: Math.min(terminal.rows, TERMINAL_ROWS_MAX),
})

function type(typed: string): void {
  const { text, command } = keys.filter(typed)
  if (text !== '') sender.send(text)
  if (command === 'leave') leave()
  // Later, because the letter would be typed into the bar.
  else if (command === 'find') setTimeout(openFindBar)
}

/** The library knows Ctrl ] on American keyboards only. */
function isForSession(event: KeyboardEvent): boolean {
  if (!event.ctrlKey || event.key !== ']') return true
  event.preventDefault()
  if (event.type === 'keydown') type(PREFIX_BYTE)
  return false
}

/** Ctrl C belongs to the session, so a selection is copied by a button. */
function startCopying(): void {
  const copy = elementOf('copy', HTMLElement)
  terminal.onSelectionChange(() => {
    copy.hidden = !terminal.hasSelection()
  })
  copy.addEventListener('click', () => {
    void navigator.clipboard
      .writeText(terminal.getSelection())
      .then(() => showStatus({ text: 'Copied.', isProblem: false }))
    terminal.focus()
  })
}

const showConnected = (): void =>
  showStatus({ text: 'Connected. Ctrl ] then D leaves, Ctrl ] then F finds.', isProblem: false })

function showStatus({ text, isProblem }: EndWords): void {
  status.textContent = text
  status.classList.toggle('problem', isProblem)
}

/** The page around the frame closes it; a document of its own goes to the run. */
function leave(): void {
  leaving.abort()
  if (parent === window) location.assign(`/runs/${encodeURIComponent(runId)}`)
  else parent.postMessage('leave terminal', location.origin)
}

// ---- the find bar --------------------------------------------------------------------------------------------------

/** @returns opens the bar that finds text in the terminal's lines */
function startFindBar(terminal: Terminal): () => void {
  const bar = elementOf('find', HTMLFormElement)
  const text = elementOf('find-text', HTMLInputElement)
  const outcome = elementOf('find-outcome', HTMLElement)
  const search = new SearchAddon()
  terminal.loadAddon(search)

  const find = (isBackwards: boolean, incremental = false): void => {
    if (text.value === '') {
      outcome.textContent = ''
      terminal.clearSelection()
      return
    }
    const isFound = isBackwards
      ? search.findPrevious(text.value, { incremental })
      : search.findNext(text.value, { incremental })
    outcome.textContent = isFound ? '' : 'Nothing is found.'
  }
  const open = (): void => {
    bar.hidden = false
    text.focus()
    text.select()
  }
  const close = (): void => {
    bar.hidden = true
    outcome.textContent = ''
    terminal.focus()
  }

  // The newest lines are what a person looks for first, so finding goes upwards from the end.
  text.addEventListener('input', () => find(true, true))
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close()
    else if (event.key !== 'Enter') return
    else find(!event.shiftKey)
    event.preventDefault()
  })
  bar.addEventListener('submit', (event) => {
    event.preventDefault()
    find(false)
  })
  elementOf('find-before', HTMLElement).addEventListener('click', () => find(true))
  elementOf('find-close', HTMLElement).addEventListener('click', close)
  elementOf('find-open', HTMLElement).addEventListener('click', () => (bar.hidden ? open() : close()))
  return open
}

// ---- colours -------------------------------------------------------------------------------------------------------

/** A probe resolves what the style sheet leaves to the browser, such as `light-dark()`. */
function terminalColors(root: HTMLElement): ITheme {
  const probe = root.ownerDocument.createElement('span')
  root.append(probe)
  const colors = Object.entries(NAMES).map(([name, variable]) => {
    probe.style.setProperty('color', `var(${variable})`)
    return [name, getComputedStyle(probe).color]
  })
  probe.remove()
  return Object.fromEntries(colors)
}

/** The theme that the person has chosen; the page around this document may change it at any time. */
function applyTheme(): void {
  const { theme } = readPreferences()
  const { dataset } = document.documentElement
  if (theme === 'system') delete dataset.theme
  else dataset.theme = theme
}

function followTheme(terminal: Terminal): void {
  const draw = () => {
    applyTheme()
    terminal.options.theme = terminalColors(document.documentElement)
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
  addEventListener('storage', ({ key }) => {
    if (key === PREFERENCES_KEY) draw()
  })
}

start()

/** The elements of the terminal's document, which is written by hand. */
function elementOf<T extends HTMLElement>(id: string, kind: new () => T): T {
  const element = document.getElementById(id)
  if (element instanceof kind) return element
  throw new Error(`the document has no ${id}`)
}
