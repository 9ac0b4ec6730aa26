/**
 * Ranges of numbers that are lost: disjoint, in order, and as few as there can be, for neighbours become one.
 */
export interface Gap {
  readonly from: number
  readonly to: number
}

interface Range {
  from: number
  to: number
}

export interface Added {
  /** As they are now, those that have become larger, or are new. */
  readonly widened: Iterable<Gap>
  /** Last numbers of ranges that have another last number now. */
  readonly outdated: readonly number[]
}

export class Gaps {
  readonly #ranges: Range[] = []

  get all(): readonly Gap[] {
    return this.#ranges
  }

  /** Behind all others. */
  append(gap: Gap): void {
    this.#ranges.push({ ...gap })
  }

  /** @param seqs ascending, none of them in a gap yet */
  add(seqs: readonly number[]): Added {
    const widened = new Set<Range>()
    const outdated: number[] = []
    for (const seq of seqs) this.#addOne(seq, widened, outdated)
    return { widened, outdated }
  }

  /** The one that this number is in. */
  with(seq: number): Gap | undefined {
    const gap = this.#ranges[this.#at(seq)]
    return gap !== undefined && gap.from <= seq ? gap : undefined
  }

  /** Forgets everything up to a number. Answers the last numbers of the ranges that are gone. */
  trim(upTo: number): number[] {
    const over = this.#ranges.findIndex(({ to }) => to > upTo)
    const gone = this.#ranges.splice(0, over < 0 ? this.#ranges.length : over)
    const [first] = this.#ranges
    if (first !== undefined && first.from <= upTo) first.from = upTo + 1
    return gone.map(({ to }) => to)
  }

  #addOne(seq: number, widened: Set<Range>, outdated: number[]): void {
    const at = this.#at(seq)
    const before = this.#ranges[at - 1]
    const behind = this.#ranges[at]
    const touchesBehind = behind !== undefined && behind.from === seq + 1
    if (before === undefined || before.to + 1 !== seq) {
      if (touchesBehind) behind.from = seq
      else this.#ranges.splice(at, 0, { from: seq, to: seq })
      widened.add(this.#ranges[at] as Range)
      return
    }
    outdated.push(before.to)
    before.to = touchesBehind ? behind.to : seq
    widened.add(before)
    if (!touchesBehind) return
    this.#ranges.splice(at, 1)
    widened.delete(behind)
  }

  /** Where the first range is that ends at or behind this number. */
  #at(seq: number): number {
    let [low, high] = [0, this.#ranges.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#ranges[middle]?.to ?? 0) < seq) low = middle + 1
      else high = middle
    }
    return low
  }
}
