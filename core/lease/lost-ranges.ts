/**
 * Ranges of numbers that are lost: disjoint, in order, and as few as there can be, for neighbours become one.
 */
export interface LostRange {
  readonly from: number
  readonly to: number
}

interface MutableRange {
  from: number
  to: number
}

export interface AddedNumbers {
  /** As they are now, those that have become larger, or are new. */
  readonly widened: Iterable<LostRange>
  /** Last numbers of ranges that have another last number now. */
  readonly outdated: readonly number[]
}

export class LostRanges {
  readonly #ranges: MutableRange[] = []

  get all(): readonly LostRange[] {
    return this.#ranges
  }

  /** Behind all others. */
  append(range: LostRange): void {
    this.#ranges.push({ ...range })
  }

  /** @param seqs ascending, none of them in a gap yet */
  add(seqs: readonly number[]): AddedNumbers {
    const widened = new Set<MutableRange>()
    const outdated: number[] = []
    for (const seq of seqs) this.#addOne(seq, widened, outdated)
    return { widened, outdated }
  }

  /** The one that this number is in. */
  find(seq: number): LostRange | undefined {
    const range = this.#ranges[this.#indexOf(seq)]
    return range !== undefined && range.from <= seq ? range : undefined
  }

  /** Forgets everything up to a number. Answers the last numbers of the ranges that are gone. */
  removeUpTo(upTo: number): number[] {
    const firstLeft = this.#ranges.findIndex(({ to }) => to > upTo)
    const removed = this.#ranges.splice(0, firstLeft < 0 ? this.#ranges.length : firstLeft)
    const [first] = this.#ranges
    if (first !== undefined && first.from <= upTo) first.from = upTo + 1
    return removed.map(({ to }) => to)
  }

  #addOne(seq: number, widened: Set<MutableRange>, outdated: number[]): void {
    const at = this.#indexOf(seq)
    const before = this.#ranges[at - 1]
    const behind = this.#ranges[at]
    const touchesBehind = behind !== undefined && behind.from === seq + 1
    if (before === undefined || before.to + 1 !== seq) {
      if (touchesBehind) behind.from = seq
      else this.#ranges.splice(at, 0, { from: seq, to: seq })
      widened.add(this.#ranges[at] as MutableRange)
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
  #indexOf(seq: number): number {
    let [low, high] = [0, this.#ranges.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#ranges[middle]?.to ?? 0) < seq) low = middle + 1
      else high = middle
    }
    return low
  }
}
