/** Writes and checks a story: a recorded stream of inspection records, one JSON value a line. */
import {
  type ActorDetail,
  type InspectFrame,
  type InspectionRecord,
  type StoryHead,
  StoryHead as StoryHeadSchema,
  StoryLine,
} from '../../protocol/inspection.ts'
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

/**
 * Turns inspection frames into the lines of a story.
 *
 * A host that is started again numbers its records anew; in a story the numbers go on, and its actors are `restored`.
 */
export class StoryLines {
  readonly #source: Pick<StoryHead, 'source' | 'title'>
  /** Added to the numbers of the present host. */
  #offset = 0
  #last = 0
  #hosts = 0
  #now = 0
  #records = 0
  #lost = 0

  constructor(source: Pick<StoryHead, 'source' | 'title'>) {
    this.#source = source
  }

  get records(): number {
    return this.#records
  }

  get lost(): number {
    return this.#lost
  }

  translate(frame: InspectFrame): StoryLine[] {
    switch (frame.type) {
      case 'inspect-hello':
        this.#now = frame.now
        this.#offset = this.#last
        this.#hosts += 1
        return this.#hosts > 1 ? [] : [{ story: 1, at: frame.now, version: frame.version, ...this.#source }]
      case 'inspect-detail':
        return [this.#hosts > 1 ? this.#restored(frame.detail) : frame.detail]
      case 'inspect-records':
        this.#lost += frame.lost ?? 0
        return frame.records.map((record) => this.#renumbered(record))
      default:
        return []
    }
  }

  end(at: number): StoryLine {
    return { end: at, records: this.#records, lost: this.#lost }
  }

  #renumbered(record: InspectionRecord): InspectionRecord {
    const { n, cause } = record
    this.#records += 1
    this.#last = n + this.#offset
    return { ...record, n: this.#last, ...(cause === undefined ? {} : { cause: cause + this.#offset }) }
  }

  #restored({ actor, context }: ActorDetail): InspectionRecord {
    this.#records += 1
    this.#offset += 1
    this.#last += 1
    const from = { is: 'restore' as const, name: '' }
    return {
      n: this.#last,
      at: this.#now,
      actor: actor.id,
      is: 'restored',
      name: '',
      from,
      after: actor.state,
      context,
    }
  }
}
