/**
 * The colours of a line as spans with classes.
 *
 * ansi_up writes markup with style attributes, which the page's policy refuses and which is never put into the document
 * here: its output, whose text is escaped, is read back into plain objects. The 16 named colours are classes; others are
 * numbers, which the page makes legible in its theme.
 */
import { AnsiUp } from 'ansi_up'
import { hasColors, plainText } from './clean-text.ts'

export interface ColoredSpan {
  readonly text: string
  /** Like `ansi-red-fg ansi-bold`. */
  readonly classes: string
  /** Red, green and blue of a colour without a name. */
  readonly color?: readonly [number, number, number]
}

/** Making one takes long; each line begins without the colours of the line before it. */
const ansi = new AnsiUp()
ansi.use_classes = true
const RESET = '\u001b[0m'

const PART = /<span(?: style="([^"]*)")?(?: class="([^"]*)")?>([^<]*)<\/span>|<a [^>]*>([^<]*)<\/a>|([^<]+)/g
const COLOR = /(?:^|;)color:rgb\((\d+),(\d+),(\d+)\)/
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#x27': "'" }
const STYLES: readonly (readonly [sign: string, name: string])[] = [
  ['font-weight:bold', 'ansi-bold'],
  ['opacity:0.7', 'ansi-faint'],
  ['font-style:italic', 'ansi-italic'],
  ['text-decoration:underline', 'ansi-underline'],
]

/** The spans of a cleaned line; together they have exactly its letters. */
export function coloredSpans(line: string): readonly ColoredSpan[] {
  if (!hasColors(line)) return [{ text: line, classes: '' }]
  const spans = [...ansi.ansi_to_html(`${RESET}${line}`).matchAll(PART)].map(
    ([, style = '', classes = '', inSpan, inLink, plain]): ColoredSpan => ({
      text: lettersOf(inSpan ?? inLink ?? plain ?? ''),
      classes: [classes, ...STYLES.filter(([sign]) => style.includes(sign)).map(([, name]) => name)]
        .filter(Boolean)
        .join(' '),
      ...colorOf(style),
    }),
  )
  const plain = plainText(line)
  const isSame = spans.map(({ text }) => text).join('') === plain
  return isSame ? spans : [{ text: plain, classes: '' }]
}

function colorOf(style: string): Pick<ColoredSpan, 'color'> {
  const found = COLOR.exec(style)
  return found === null ? {} : { color: [Number(found[1]), Number(found[2]), Number(found[3])] }
}

const lettersOf = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|#x27);/g, (_, name: string) => ENTITIES[name] ?? '')

// ---- legible colours -----------------------------------------------------------------------------------------------

type Rgb = readonly [number, number, number]
const CONTRAST_MIN = 4.5

/** Moves a colour towards black or white until it can be read on the surface. */
export function legibleColor(color: Rgb, surface: Rgb): Rgb {
  const target = luminance(surface) > 0.4 ? 0 : 255
  let [mixed, share]: [Rgb, number] = [color, 0]
  while (contrast(mixed, surface) < CONTRAST_MIN && share < 1) {
    share += 0.05
    mixed = [mix(color[0], target, share), mix(color[1], target, share), mix(color[2], target, share)]
  }
  return mixed
}

const mix = (from: number, to: number, share: number): number =>
  Math.round(from + (to - from) * Math.min(1, share))

export function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [Math.max(luminance(a), luminance(b)), Math.min(luminance(a), luminance(b))]
  return (high + 0.05) / (low + 0.05)
}

function luminance([red, green, blue]: Rgb): number {
  const linear = (value: number): number =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}
