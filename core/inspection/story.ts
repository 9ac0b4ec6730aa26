/** Checks a story: a recorded stream of inspection records, one JSON value a line. */
import { type StoryHead, StoryHead as StoryHeadSchema, StoryLine } from '../../protocol/inspection.ts'
import { createChecker, parseJson } from '../../protocol/parse.ts'
import { no, type Result, yes } from '../result.ts'

export interface CheckedStory {
  readonly head: StoryHead
  /** The recording has no end: it was killed, or its disk was full. The rest can be shown. */
  readonly isIncomplete: boolean
  /** Up to the last whole line. */
  readonly text: string
}

const checkHead = createChecker(StoryHeadSchema)
const checkLine = createChecker(StoryLine)

export function checkStory(text: string): Result<CheckedStory> {
  const lines = text.split('\n')
  // The text after the last line break is empty, or a line whose end was never written.
  const rest = lines.pop() ?? ''
  const first = parseJson(lines[0] ?? rest)
  const head = first.ok ? checkHead(first.value) : first
  if (!head.ok)
    return no(
      'invalid',
      `line 1 is no head of a story (${head.error}); record one with switchyard inspect --record FILE`,
    )
  for (const [index, line] of lines.entries()) {
    const parsed = parseJson(line)
    const checked = parsed.ok ? checkLine(parsed.value) : parsed
    if (!checked.ok) return no('invalid', `line ${index + 1} is damaged: ${checked.error}`)
  }
  const last = parseJson(lines.at(-1) ?? '')
  const hasEnd = last.ok && typeof last.value === 'object' && last.value !== null && 'end' in last.value
  return yes({ head: head.value, isIncomplete: rest !== '' || !hasEnd, text: `${lines.join('\n')}\n` })
}
