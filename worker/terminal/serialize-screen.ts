/**
 * A terminal as text that draws it anew: what has scrolled away, what it shows, and how it stands, so that whatever is
 * printed next looks the same on both.
 *
 * Each row is drawn by itself, from plain to plain. What the library keeps to itself (the colours that come next, the
 * margins, whether the cursor shows) is read where it keeps it: its own way of writing a terminal down leaves much of
 * that out, and draws one in six of our random terminals wrong. The version is pinned, and tests compare every cell.
 */
import type { IBuffer, IBufferCell, IBufferLine, Terminal } from '@xterm/headless'

/** Of what has scrolled away, the newest. */
const SCROLLBACK_CHARS_MAX = 1024 * 1024
/** A screen that would take more is drawn without its colours. */
const SCREEN_CHARS_MAX = 4 * 1024 * 1024

/** How a character looks. What is not in the library's types is optional. */
type Look = Pick<
  IBufferCell,
  | 'isBold'
  | 'isDim'
  | 'isItalic'
  | 'isUnderline'
  | 'isBlink'
  | 'isInverse'
  | 'isInvisible'
  | 'isStrikethrough'
  | 'isOverline'
  | 'getFgColorMode'
  | 'getFgColor'
  | 'isFgDefault'
  | 'getBgColorMode'
  | 'getBgColor'
  | 'isBgDefault'
  | 'isAttributeDefault'
> & {
  getUnderlineStyle?(): number
  isUnderlineColorDefault?(): boolean
  getUnderlineColorMode?(): number
  getUnderlineColor?(): number
  /** All of it in numbers. */
  readonly fg?: number
  readonly bg?: number
  readonly extended?: { readonly ext: number }
}

interface Standing {
  readonly scrollTop: number
  readonly scrollBottom: number
  readonly savedX: number
  /** Counted from the oldest line. */
  readonly savedY: number
  readonly savedCurAttrData: Look
  readonly savedCharset: Charset
}

type Charset = Readonly<Record<string, string>> | undefined

interface Insides {
  readonly _inputHandler: {
    readonly _curAttrData: Look
    /** 0: in the middle of no sequence. */
    readonly _parser: { readonly currentState: number }
  }
  readonly coreService: {
    readonly isCursorHidden: boolean
    readonly decPrivateModes: { readonly cursorStyle?: string; readonly cursorBlink?: boolean }
  }
  readonly coreMouseService: { readonly activeEncoding: string }
  readonly buffers: { readonly normal: Standing; readonly alt: Standing }
  readonly _charsetService: {
    readonly glevel: number
    readonly _charsets: readonly Charset[]
    /** The one that is written in: who takes back what was kept may write in another than is chosen. */
    readonly charset: Charset
  }
}

/** A full reset, and away with what had scrolled off before it: it is all drawn again. */
const CLEAN_START = '\x1b[?1049l\x1bc\x1b[3J'
/** No colours, and letters that are letters. */
const PLAIN_WRITING = '\x1b[m\x1b(B'
const NO_MARGINS = '\x1b[r'

export function pictureOf(terminal: Terminal): string {
  const insides = insidesOf(terminal)
  const { normal, active, alternate } = terminal.buffer
  if (active.type === 'normal')
    return CLEAN_START + drawn(terminal, normal) + stood(terminal, insides, insides.buffers.normal, normal)
  // Going in front keeps where the cursor is, for the way back: so it is put where it was kept.
  const margins = marginsOf(insides.buffers.normal, terminal)
  const kept = `${margins}${keptOf(insides.buffers.normal, normal)}`
  const within = margins === '' ? '' : NO_MARGINS
  const inFront = drawn(terminal, alternate) + stood(terminal, insides, insides.buffers.alt, alternate)
  return `${CLEAN_START}${drawn(terminal, normal)}${kept}\x1b[?1049h${PLAIN_WRITING}${within}\x1b[2J\x1b[H${inFront}`
}

/** In the middle of no sequence. */
export function isBetween(terminal: Terminal): boolean {
  return insidesOf(terminal)._inputHandler._parser.currentState === 0
}

/** Whatever line is printed next, all of the screen scrolls up. */
export function scrollsWhole(terminal: Terminal): boolean {
  const { buffers } = insidesOf(terminal)
  const { scrollTop, scrollBottom } = terminal.buffer.active.type === 'normal' ? buffers.normal : buffers.alt
  return scrollTop === 0 && scrollBottom === terminal.rows - 1
}

/** The one place where the library's insides are reached for. */
const insidesOf = (terminal: Terminal): Insides => (terminal as unknown as { readonly _core: Insides })._core

// ---- rows ------------------------------------------------------------------------------------------------------------

function drawn(terminal: Terminal, buffer: IBuffer): string {
  const cell = buffer.getNullCell()
  const first = buffer.length - terminal.rows
  const inColour = screenOf(terminal, buffer, cell, true)
  const screen = inColour.length > SCREEN_CHARS_MAX ? screenOf(terminal, buffer, cell, false) : inColour
  const behind: string[] = []
  let left = SCROLLBACK_CHARS_MAX
  for (let y = first - 1; y >= 0; y--) {
    const row = rowAt(buffer, y, terminal.cols, cell, true)
    left -= row.length
    if (left < 0) break
    behind.push(row)
  }
  return behind.reverse().join('') + screen
}

function screenOf({ rows, cols }: Terminal, buffer: IBuffer, cell: IBufferCell, inColour: boolean): string {
  let screen = ''
  for (let y = buffer.length - rows; y < buffer.length; y++) screen += rowAt(buffer, y, cols, cell, inColour)
  return screen
}

/** With what leads to the next one. */
function rowAt(buffer: IBuffer, y: number, cols: number, cell: IBufferCell, inColour: boolean): string {
  const line = buffer.getLine(y)
  const row = line === undefined ? '' : rowOf(line, cols, cell, inColour)
  const next = y + 1 < buffer.length ? buffer.getLine(y + 1) : undefined
  if (next === undefined || (line !== undefined && flowsOn(line, next, cols, cell))) return row
  return `${row}\r\n`
}

/** The next row begins by itself, as it did once: then it stays one line when the window is made wider. */
function flowsOn(line: IBufferLine, next: IBufferLine, cols: number, cell: IBufferCell): boolean {
  if (!next.isWrapped) return false
  const last = line.getCell(cols - 1, cell)
  // What comes into view is filled with the colour of that moment.
  if (last === undefined || (last.getChars() === '' && last.getWidth() !== 0) || !last.isBgDefault())
    return false
  const first = next.getCell(0, cell)
  return first !== undefined && first.getChars() !== '' && first.isBgDefault()
}

/** From plain to plain. */
function rowOf(line: IBufferLine, cols: number, cell: IBufferCell, inColour: boolean): string {
  let row = ''
  let look = PLAIN
  /** Columns of nothing, all of this look. */
  let empty = 0
  for (let x = 0; x < cols; x++) {
    if (line.getCell(x, cell) === undefined || cell.getWidth() === 0) continue
    const chars = cell.getWidth() === 2 && isTorn(line, x) ? '' : cell.getChars()
    const isPlain = !inColour || (chars === '' && cell.isBgDefault())
    const next = isPlain ? PLAIN : keyOf(cell)
    if (empty > 0 && (chars !== '' || next !== look)) {
      row += `${emptied(empty, look)}\x1b[${empty}C`
      empty = 0
    }
    if (next !== look) row += isPlain ? '\x1b[m' : sgrOf(cell)
    look = next
    if (chars === '') empty += 1
    else row += chars
  }
  return look === PLAIN ? row : `${row}${emptied(empty, look)}\x1b[m`
}

/** Of a wide character only the left half is left, something else was written over the other: it would push all to its right. */
const isTorn = (line: IBufferLine, x: number): boolean => line.getCell(x + 1)?.getWidth() !== 0

/** Of what is empty and plain there is nothing to draw. */
const emptied = (columns: number, look: string): string =>
  columns === 0 || look === PLAIN ? '' : `\x1b[${columns}X`

// ---- looks -----------------------------------------------------------------------------------------------------------

const PLAIN = '0 0 0'

/** The same for the same look. */
function keyOf(look: Look): string {
  if (look.isAttributeDefault()) return PLAIN
  if (look.fg === undefined || look.bg === undefined) return sgrOf(look)
  return `${look.fg} ${look.bg} ${look.extended?.ext ?? 0}`
}

/** From whatever look to this one. */
function sgrOf(look: Look): string {
  const codes = ['0']
  if (look.isBold()) codes.push('1')
  if (look.isDim()) codes.push('2')
  if (look.isItalic()) codes.push('3')
  // Of what is kept with the cursor the library knows only that it is underlined, and not how.
  if (look.isUnderline()) codes.push(`4:${look.getUnderlineStyle?.() || 1}`)
  if (look.isBlink()) codes.push('5')
  if (look.isInverse()) codes.push('7')
  if (look.isInvisible()) codes.push('8')
  if (look.isStrikethrough()) codes.push('9')
  if (look.isOverline()) codes.push('53')
  if (!look.isFgDefault()) codes.push(colour(3, look.getFgColorMode(), look.getFgColor()))
  if (!look.isBgDefault()) codes.push(colour(4, look.getBgColorMode(), look.getBgColor()))
  if (look.isUnderlineColorDefault?.() === false)
    codes.push(colour(5, look.getUnderlineColorMode?.() ?? 0, look.getUnderlineColor?.() ?? 0))
  return `\x1b[${codes.join(';')}m`
}

/** How the library says where a colour comes from: the sixteen that a person may choose, or a value. */
const SIXTEEN = 0x1000000
const VALUE = 0x3000000

/** `ground`: 3 for what is written, 4 for what is behind it, 5 for what is under it. */
function colour(ground: number, mode: number, color: number): string {
  if (mode === VALUE) return `${ground}8;2;${(color >> 16) & 255};${(color >> 8) & 255};${color & 255}`
  if (mode !== SIXTEEN || ground === 5) return `${ground}8;5;${color}`
  return color < 8 ? `${ground}${color}` : `${ground + 6}${color - 8}`
}

// ---- how it stands ---------------------------------------------------------------------------------------------------

function stood(terminal: Terminal, insides: Insides, standing: Standing, buffer: IBuffer): string {
  const { modes } = terminal
  const last = sgrOf(insides._inputHandler._curAttrData)
  return [
    savedOf(standing, buffer),
    marginsOf(standing, terminal),
    modes.originMode ? '\x1b[?6h' : '',
    cursorOf(terminal, buffer, modes.originMode ? standing.scrollTop : 0),
    last,
    charsetsOf(insides),
    modesOf(terminal),
    mouseOf(modes, insides),
    faceOf(insides),
  ].join('')
}

const marginsOf = ({ scrollTop, scrollBottom }: Standing, { rows }: Terminal): string =>
  scrollTop === 0 && scrollBottom === rows - 1 ? '' : `\x1b[${scrollTop + 1};${scrollBottom + 1}r`

function savedOf(standing: Standing, buffer: IBuffer): string {
  const { savedX, savedY, savedCurAttrData, savedCharset } = standing
  const isPlain = savedCurAttrData.isAttributeDefault() && !isForLines(savedCharset)
  if (savedX === 0 && savedY === 0 && isPlain) return ''
  return `${keptOf(standing, buffer)}\x1b7${PLAIN_WRITING}`
}

const keptOf = ({ savedX, savedY, savedCurAttrData, savedCharset }: Standing, { baseY }: IBuffer): string =>
  `${cursorTo(savedX, savedY - baseY)}${sgrOf(savedCurAttrData)}${isForLines(savedCharset) ? '\x1b(0' : ''}`

/**
 * Behind the last column stands only who has just written there. Where that was erased since, and no other step was
 * taken, terminals differ among themselves, and the last column has to do.
 */
function cursorOf({ cols }: Terminal, buffer: IBuffer, top: number): string {
  const { cursorX, cursorY, baseY } = buffer
  const line = buffer.getLine(baseY + cursorY)
  if (cursorX < cols || line === undefined) return cursorTo(cursorX, cursorY - top)
  const x = line.getCell(cols - 1)?.getWidth() === 0 ? cols - 2 : cols - 1
  const cell = line.getCell(x)
  const there = cursorTo(x, cursorY - top)
  return cell === undefined || cell.getChars() === '' ? there : `${there}${sgrOf(cell)}${cell.getChars()}`
}

const cursorTo = (x: number, y: number): string => `\x1b[${Math.max(0, y) + 1};${x + 1}H`

/** In the charset for drawing lines this letter is a line. */
const isForLines = (charset: Charset): boolean => charset?.q === '─'

function charsetsOf({ _charsetService: { glevel, _charsets, charset } }: Insides): string {
  const chosen = (level: number) => (level === glevel ? charset : _charsets[level])
  const first = isForLines(chosen(0)) ? '\x1b(0' : ''
  const second = isForLines(chosen(1)) ? '\x1b)0' : ''
  return `${first}${second}${glevel === 1 ? '\x0e' : ''}`
}

function modesOf({ modes, options }: Terminal): string {
  return [
    modes.applicationCursorKeysMode ? '\x1b[?1h' : '',
    modes.applicationKeypadMode ? '\x1b=' : '',
    modes.bracketedPasteMode ? '\x1b[?2004h' : '',
    modes.sendFocusMode ? '\x1b[?1004h' : '',
    modes.reverseWraparoundMode ? '\x1b[?45h' : '',
    modes.insertMode ? '\x1b[4h' : '',
    options.convertEol === true ? '\x1b[20h' : '',
    modes.wraparoundMode ? '' : '\x1b[?7l',
  ].join('')
}

const MOUSE = { none: '', x10: '\x1b[?9h', vt200: '\x1b[?1000h', drag: '\x1b[?1002h', any: '\x1b[?1003h' }
const MOUSE_ENCODINGS: Readonly<Record<string, string>> = { SGR: '\x1b[?1006h', SGR_PIXELS: '\x1b[?1016h' }

function mouseOf({ mouseTrackingMode }: Terminal['modes'], { coreMouseService }: Insides): string {
  return `${MOUSE[mouseTrackingMode]}${MOUSE_ENCODINGS[coreMouseService.activeEncoding] ?? ''}`
}

const CURSORS: Readonly<Record<string, number>> = { block: 1, underline: 3, bar: 5 }

/** The cursor's form, and whether it shows. */
function faceOf({ coreService: { isCursorHidden, decPrivateModes } }: Insides): string {
  const { cursorStyle, cursorBlink } = decPrivateModes
  const form = cursorStyle === undefined ? undefined : CURSORS[cursorStyle]
  const shape = form === undefined ? '' : `\x1b[${cursorBlink === false ? form + 1 : form} q`
  return `${shape}${isCursorHidden ? '\x1b[?25l' : ''}`
}
