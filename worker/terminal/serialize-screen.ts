/**
 * Serializes a terminal as text that redraws it: scrollback, screen and state, so that later output looks the same.
 *
 * Each row starts and ends in the default style. State that the library does not expose (current colours, margins,
 * cursor visibility) is read from its private fields, because the library's own serializer omits much of it and redraws
 * one in six of our random test terminals wrong. The library version is pinned, and tests compare every cell.
 */
import type { IBuffer, IBufferCell, IBufferLine, Terminal } from '@xterm/headless'

/** The newest part of the scrollback that is serialized. */
const SCROLLBACK_CHARS_MAX = 1024 * 1024
/** A larger screen is serialized without colours. */
const SCREEN_CHARS_MAX = 4 * 1024 * 1024

/** The style of a cell. Members that the library's types lack are optional. */
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
  /** The complete style as numbers. */
  readonly fg?: number
  readonly bg?: number
  readonly extended?: { readonly ext: number }
}

interface BufferState {
  readonly scrollTop: number
  readonly scrollBottom: number
  readonly savedX: number
  /** Row, counted from the oldest line of the scrollback. */
  readonly savedY: number
  readonly savedCurAttrData: CellStyle
  readonly savedCharset: Charset
}

type Charset = Readonly<Record<string, string>> | undefined

interface SerializerInternals {
  readonly _inputHandler: {
    readonly _curAttrData: CellStyle
    /** The state is 0 outside of escape sequences. */
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
    /** The active character set; after restoring the cursor it may differ from the selected one. */
    readonly charset: Charset
  }
}

/** Leaves the alternate screen, resets the terminal, and clears the scrollback. */
const CLEAN_START = '\x1b[?1049l\x1bc\x1b[3J'
/** Default colours and the ASCII character set. */
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
  // Entering the alternate screen saves the cursor, so the saved state is restored before.
  const margins = setMargins(internals.buffers.normal, terminal)
  const savedState = `${margins}${restoreSavedState(internals.buffers.normal, normal)}`
  const resetMargins = margins === '' ? '' : NO_MARGINS
  const front =
    serializeRows(terminal, alternate) + serializeState(terminal, internals, internals.buffers.alt, alternate)
  return `${CLEAN_START}${serializeRows(terminal, normal)}${savedState}\x1b[?1049h${PLAIN_WRITING}${resetMargins}\x1b[2J\x1b[H${front}`
}

/** Returns whether the parser is outside of escape sequences. */
export function isBetweenSequences(terminal: Terminal): boolean {
  return internalsOf(terminal)._inputHandler._parser.currentState === 0
}

/** Returns whether a line feed on the last row scrolls the whole screen. */
export function scrollsWholeScreen(terminal: Terminal): boolean {
  const { buffers } = internalsOf(terminal)
  const { scrollTop, scrollBottom } = terminal.buffer.active.type === 'normal' ? buffers.normal : buffers.alt
  return scrollTop === 0 && scrollBottom === terminal.rows - 1
}

/** The only access to the library's private fields. */
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

/** Serializes a row, with a line break unless the next row continues it. */
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

/** Returns whether printing wraps into the next row by itself; both then stay one line when the window gets wider. */
function continuesInNext(line: IBufferLine, next: IBufferLine, cols: number, cell: IBufferCell): boolean {
  if (!next.isWrapped) return false
  const last = line.getCell(cols - 1, cell)
  // A row that scrolls into view is filled with the current background colour.
  if (last === undefined || (last.getChars() === '' && last.getWidth() !== 0) || !last.isBgDefault())
    return false
  const first = next.getCell(0, cell)
  return first !== undefined && first.getChars() !== '' && first.isBgDefault()
}

/** Serializes a row that starts and ends in the default style. */
function serializeRow(line: IBufferLine, cols: number, cell: IBufferCell, inColour: boolean): string {
  let row = ''
  let styleKey = PLAIN_KEY
  /** Number of consecutive empty columns in the current style. */
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

/** Detects the left half of a wide character whose right half was overwritten; printed, it would shift the row. */
const isHalfOverwritten = (line: IBufferLine, x: number): boolean => line.getCell(x + 1)?.getWidth() !== 0

/** Empty columns in the default style need no output. */
const eraseColumns = (columns: number, styleKey: string): string =>
  columns === 0 || styleKey === PLAIN_KEY ? '' : `\x1b[${columns}X`

// ---- styles ----------------------------------------------------------------------------------------------------------

const PLAIN_KEY = '0 0 0'

/** Equal styles have equal keys. */
function styleKeyOf(style: CellStyle): string {
  if (style.isAttributeDefault()) return PLAIN_KEY
  if (style.fg === undefined || style.bg === undefined) return selectStyle(style)
  return `${style.fg} ${style.bg} ${style.extended?.ext ?? 0}`
}

/** Returns the sequence that selects this style from any other. */
function selectStyle(style: CellStyle): string {
  const codes = ['0']
  if (style.isBold()) codes.push('1')
  if (style.isDim()) codes.push('2')
  if (style.isItalic()) codes.push('3')
  // For the style saved with the cursor, the library knows that it is underlined, but not the underline style.
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

/** The library's colour modes: the 16-colour palette, or an RGB value. */
const PALETTE_16 = 0x1000000
const RGB = 0x3000000

/** `layer` is 3 for the foreground, 4 for the background, 5 for the underline. */
function colourCode(layer: number, mode: number, color: number): string {
  if (mode === RGB) return `${layer}8;2;${(color >> 16) & 255};${(color >> 8) & 255};${color & 255}`
  if (mode !== PALETTE_16 || layer === 5) return `${layer}8;5;${color}`
  return color < 8 ? `${layer}${color}` : `${layer + 6}${color - 8}`
}

// ---- state -----------------------------------------------------------------------------------------------------------

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
 * A cursor behind the last column has just written there, so that character is written again. If the cell was erased
 * since, terminals differ, and the cursor is placed in the last column.
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

/** The line drawing character set maps `q` to a horizontal line. */
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

/** Sets the cursor's shape and visibility. */
function setCursorShape({ coreService: { isCursorHidden, decPrivateModes } }: SerializerInternals): string {
  const { cursorStyle, cursorBlink } = decPrivateModes
  const form = cursorStyle === undefined ? undefined : CURSORS[cursorStyle]
  const shape = form === undefined ? '' : `\x1b[${cursorBlink === false ? form + 1 : form} q`
  return `${shape}${isCursorHidden ? '\x1b[?25l' : ''}`
}
