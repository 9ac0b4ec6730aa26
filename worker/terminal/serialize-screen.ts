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
type CellStyle = Pick<
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

interface BufferState {
  readonly scrollTop: number
  readonly scrollBottom: number
  readonly savedX: number
  /** Counted from the oldest line. */
  readonly savedY: number
  readonly savedCurAttrData: CellStyle
  readonly savedCharset: Charset
}

type Charset = Readonly<Record<string, string>> | undefined

interface SerializerInternals {
  readonly _inputHandler: {
    readonly _curAttrData: CellStyle
    /** 0: in the middle of no sequence. */
    readonly _parser: { readonly currentState: number }
  }
  readonly coreService: {
    readonly isCursorHidden: boolean
    readonly decPrivateModes: { readonly cursorStyle?: string; readonly cursorBlink?: boolean }
  }
  readonly coreMouseService: { readonly activeEncoding: string }
  readonly buffers: { readonly normal: BufferState; readonly alt: BufferState }
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

export function serializeScreen(terminal: Terminal): string {
  const internals = internalsOf(terminal)
  const { normal, active, alternate } = terminal.buffer
  if (active.type === 'normal')
    return (
      CLEAN_START +
      serializeRows(terminal, normal) +
      serializeState(terminal, internals, internals.buffers.normal, normal)
    )
  // Going in front keeps where the cursor is, for the way back: so it is put where it was kept.
  const margins = setMargins(internals.buffers.normal, terminal)
  const savedState = `${margins}${restoreSavedState(internals.buffers.normal, normal)}`
  const resetMargins = margins === '' ? '' : NO_MARGINS
  const front =
    serializeRows(terminal, alternate) + serializeState(terminal, internals, internals.buffers.alt, alternate)
  return `${CLEAN_START}${serializeRows(terminal, normal)}${savedState}\x1b[?1049h${PLAIN_WRITING}${resetMargins}\x1b[2J\x1b[H${front}`
}

/** In the middle of no sequence. */
export function isBetweenSequences(terminal: Terminal): boolean {
  return internalsOf(terminal)._inputHandler._parser.currentState === 0
}

/** Whatever line is printed next, all of the screen scrolls up. */
export function scrollsWholeScreen(terminal: Terminal): boolean {
  const { buffers } = internalsOf(terminal)
  const { scrollTop, scrollBottom } = terminal.buffer.active.type === 'normal' ? buffers.normal : buffers.alt
  return scrollTop === 0 && scrollBottom === terminal.rows - 1
}

/** The one place where the library's insides are reached for. */
const internalsOf = (terminal: Terminal): SerializerInternals =>
  (terminal as unknown as { readonly _core: SerializerInternals })._core

// ---- rows ------------------------------------------------------------------------------------------------------------

function serializeRows(terminal: Terminal, buffer: IBuffer): string {
  const cell = buffer.getNullCell()
  const first = buffer.length - terminal.rows
  const coloured = serializeVisibleRows(terminal, buffer, cell, true)
  const screen =
    coloured.length > SCREEN_CHARS_MAX ? serializeVisibleRows(terminal, buffer, cell, false) : coloured
  const scrollback: string[] = []
  let charsLeft = SCROLLBACK_CHARS_MAX
  for (let y = first - 1; y >= 0; y--) {
    const row = serializeRowWithEnd(buffer, y, terminal.cols, cell, true)
    charsLeft -= row.length
    if (charsLeft < 0) break
    scrollback.push(row)
  }
  return scrollback.reverse().join('') + screen
}

function serializeVisibleRows(
  { rows, cols }: Terminal,
  buffer: IBuffer,
  cell: IBufferCell,
  inColour: boolean,
): string {
  let screen = ''
  for (let y = buffer.length - rows; y < buffer.length; y++)
    screen += serializeRowWithEnd(buffer, y, cols, cell, inColour)
  return screen
}

/** With what leads to the next one. */
function serializeRowWithEnd(
  buffer: IBuffer,
  y: number,
  cols: number,
  cell: IBufferCell,
  inColour: boolean,
): string {
  const line = buffer.getLine(y)
  const row = line === undefined ? '' : serializeRow(line, cols, cell, inColour)
  const next = y + 1 < buffer.length ? buffer.getLine(y + 1) : undefined
  if (next === undefined || (line !== undefined && continuesInNext(line, next, cols, cell))) return row
  return `${row}\r\n`
}

/** The next row begins by itself, as it did once: then it stays one line when the window is made wider. */
function continuesInNext(line: IBufferLine, next: IBufferLine, cols: number, cell: IBufferCell): boolean {
  if (!next.isWrapped) return false
  const last = line.getCell(cols - 1, cell)
  // What comes into view is filled with the colour of that moment.
  if (last === undefined || (last.getChars() === '' && last.getWidth() !== 0) || !last.isBgDefault())
    return false
  const first = next.getCell(0, cell)
  return first !== undefined && first.getChars() !== '' && first.isBgDefault()
}

/** From plain to plain. */
function serializeRow(line: IBufferLine, cols: number, cell: IBufferCell, inColour: boolean): string {
  let row = ''
  let styleKey = PLAIN_KEY
  /** Columns of nothing, all of this look. */
  let emptyColumns = 0
  for (let x = 0; x < cols; x++) {
    if (line.getCell(x, cell) === undefined || cell.getWidth() === 0) continue
    const chars = cell.getWidth() === 2 && isHalfOverwritten(line, x) ? '' : cell.getChars()
    const isPlain = !inColour || (chars === '' && cell.isBgDefault())
    const next = isPlain ? PLAIN_KEY : styleKeyOf(cell)
    if (emptyColumns > 0 && (chars !== '' || next !== styleKey)) {
      row += `${eraseColumns(emptyColumns, styleKey)}\x1b[${emptyColumns}C`
      emptyColumns = 0
    }
    if (next !== styleKey) row += isPlain ? '\x1b[m' : selectStyle(cell)
    styleKey = next
    if (chars === '') emptyColumns += 1
    else row += chars
  }
  return styleKey === PLAIN_KEY ? row : `${row}${eraseColumns(emptyColumns, styleKey)}\x1b[m`
}

/** Of a wide character only the left half is left, something else was written over the other: it would push all to its right. */
const isHalfOverwritten = (line: IBufferLine, x: number): boolean => line.getCell(x + 1)?.getWidth() !== 0

/** Of what is empty and plain there is nothing to draw. */
const eraseColumns = (columns: number, styleKey: string): string =>
  columns === 0 || styleKey === PLAIN_KEY ? '' : `\x1b[${columns}X`

// ---- looks -----------------------------------------------------------------------------------------------------------

const PLAIN_KEY = '0 0 0'

/** The same for the same look. */
function styleKeyOf(style: CellStyle): string {
  if (style.isAttributeDefault()) return PLAIN_KEY
  if (style.fg === undefined || style.bg === undefined) return selectStyle(style)
  return `${style.fg} ${style.bg} ${style.extended?.ext ?? 0}`
}

/** From whatever look to this one. */
function selectStyle(style: CellStyle): string {
  const codes = ['0']
  if (style.isBold()) codes.push('1')
  if (style.isDim()) codes.push('2')
  if (style.isItalic()) codes.push('3')
  // Of what is kept with the cursor the library knows only that it is underlined, and not how.
  if (style.isUnderline()) codes.push(`4:${style.getUnderlineStyle?.() || 1}`)
  if (style.isBlink()) codes.push('5')
  if (style.isInverse()) codes.push('7')
  if (style.isInvisible()) codes.push('8')
  if (style.isStrikethrough()) codes.push('9')
  if (style.isOverline()) codes.push('53')
  if (!style.isFgDefault()) codes.push(colourCode(3, style.getFgColorMode(), style.getFgColor()))
  if (!style.isBgDefault()) codes.push(colourCode(4, style.getBgColorMode(), style.getBgColor()))
  if (style.isUnderlineColorDefault?.() === false)
    codes.push(colourCode(5, style.getUnderlineColorMode?.() ?? 0, style.getUnderlineColor?.() ?? 0))
  return `\x1b[${codes.join(';')}m`
}

/** How the library says where a colour comes from: the sixteen that a person may choose, or a value. */
const PALETTE_16 = 0x1000000
const RGB = 0x3000000

/** `ground`: 3 for what is written, 4 for what is behind it, 5 for what is under it. */
function colourCode(layer: number, mode: number, color: number): string {
  if (mode === RGB) return `${layer}8;2;${(color >> 16) & 255};${(color >> 8) & 255};${color & 255}`
  if (mode !== PALETTE_16 || layer === 5) return `${layer}8;5;${color}`
  return color < 8 ? `${layer}${color}` : `${layer + 6}${color - 8}`
}

// ---- how it stands ---------------------------------------------------------------------------------------------------

function serializeState(
  terminal: Terminal,
  internals: SerializerInternals,
  state: BufferState,
  buffer: IBuffer,
): string {
  const { modes } = terminal
  const currentStyle = selectStyle(internals._inputHandler._curAttrData)
  return [
    saveCursor(state, buffer),
    setMargins(state, terminal),
    modes.originMode ? '\x1b[?6h' : '',
    placeCursor(terminal, buffer, modes.originMode ? state.scrollTop : 0),
    currentStyle,
    selectCharsets(internals),
    setModes(terminal),
    setMouse(modes, internals),
    setCursorShape(internals),
  ].join('')
}

const setMargins = ({ scrollTop, scrollBottom }: BufferState, { rows }: Terminal): string =>
  scrollTop === 0 && scrollBottom === rows - 1 ? '' : `\x1b[${scrollTop + 1};${scrollBottom + 1}r`

function saveCursor(state: BufferState, buffer: IBuffer): string {
  const { savedX, savedY, savedCurAttrData, savedCharset } = state
  const isPlain = savedCurAttrData.isAttributeDefault() && !isLineDrawing(savedCharset)
  if (savedX === 0 && savedY === 0 && isPlain) return ''
  return `${restoreSavedState(state, buffer)}\x1b7${PLAIN_WRITING}`
}

const restoreSavedState = (
  { savedX, savedY, savedCurAttrData, savedCharset }: BufferState,
  { baseY }: IBuffer,
): string =>
  `${moveCursorTo(savedX, savedY - baseY)}${selectStyle(savedCurAttrData)}${isLineDrawing(savedCharset) ? '\x1b(0' : ''}`

/**
 * Behind the last column stands only who has just written there. Where that was erased since, and no other step was
 * taken, terminals differ among themselves, and the last column has to do.
 */
function placeCursor({ cols }: Terminal, buffer: IBuffer, top: number): string {
  const { cursorX, cursorY, baseY } = buffer
  const line = buffer.getLine(baseY + cursorY)
  if (cursorX < cols || line === undefined) return moveCursorTo(cursorX, cursorY - top)
  const x = line.getCell(cols - 1)?.getWidth() === 0 ? cols - 2 : cols - 1
  const cell = line.getCell(x)
  const position = moveCursorTo(x, cursorY - top)
  return cell === undefined || cell.getChars() === ''
    ? position
    : `${position}${selectStyle(cell)}${cell.getChars()}`
}

const moveCursorTo = (x: number, y: number): string => `\x1b[${Math.max(0, y) + 1};${x + 1}H`

/** In the charset for drawing lines this letter is a line. */
const isLineDrawing = (charset: Charset): boolean => charset?.q === '─'

function selectCharsets({ _charsetService: { glevel, _charsets, charset } }: SerializerInternals): string {
  const chosen = (level: number) => (level === glevel ? charset : _charsets[level])
  const first = isLineDrawing(chosen(0)) ? '\x1b(0' : ''
  const second = isLineDrawing(chosen(1)) ? '\x1b)0' : ''
  return `${first}${second}${glevel === 1 ? '\x0e' : ''}`
}

function setModes({ modes, options }: Terminal): string {
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

function setMouse(
  { mouseTrackingMode }: Terminal['modes'],
  { coreMouseService }: SerializerInternals,
): string {
  return `${MOUSE[mouseTrackingMode]}${MOUSE_ENCODINGS[coreMouseService.activeEncoding] ?? ''}`
}

const CURSORS: Readonly<Record<string, number>> = { block: 1, underline: 3, bar: 5 }

/** The cursor's form, and whether it shows. */
function setCursorShape({ coreService: { isCursorHidden, decPrivateModes } }: SerializerInternals): string {
  const { cursorStyle, cursorBlink } = decPrivateModes
  const form = cursorStyle === undefined ? undefined : CURSORS[cursorStyle]
  const shape = form === undefined ? '' : `\x1b[${cursorBlink === false ? form + 1 : form} q`
  return `${shape}${isCursorHidden ? '\x1b[?25l' : ''}`
}
