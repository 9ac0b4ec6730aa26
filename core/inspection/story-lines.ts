/**
 * Turns inspection frames into the lines of a story.
 *
 * A host that is started again numbers its records anew; in a story the numbers go on, and its actors are `restored`.
 */
import type {
  ActorDetail,
  InspectFrame,
  InspectionRecord,
  StoryHead,
  StoryLine,
} from '../../protocol/inspection.ts'

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
