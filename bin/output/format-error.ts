/** Formats the error that ends a command: one sentence and one line with a cure, or JSON. */
import { type Colors, NO_COLORS } from './colors.ts'
import { wrapWords } from './text-width.ts'

export interface ErrorText {
  readonly message: string
  /** A command or a deed that helps. */
  readonly cure?: string | undefined
}

export interface ErrorStyle {
  readonly colors?: Colors
  /** The width at which prose wraps; undefined when it stays whole. */
  readonly width?: number | undefined
  readonly asJson?: boolean
}

/** Returns lines with their line ends. The cure is never wrapped, because people copy it. */
export function formatError({ message, cure }: ErrorText, style: ErrorStyle = {}): string {
  const { colors = NO_COLORS, width, asJson } = style
  if (asJson === true) return `${JSON.stringify({ error: message, ...(cure !== undefined && { cure }) })}\n`
  const lines = `${PREFIX}${message}`
    .split('\n')
    .flatMap((line) => (width === undefined ? [line] : wrapWords(line, width)))
  const painted = lines.join('\n').replace(PREFIX, `${colors.failure(PREFIX.trimEnd())} `)
  return cure === undefined ? `${painted}\n` : `${painted}\n  try: ${cure}\n`
}

const PREFIX = 'switchyard: '
