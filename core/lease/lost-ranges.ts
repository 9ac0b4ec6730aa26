/**
 * The ranges of lost frame numbers: disjoint, in order, and merged where they touch. A damaged range stays by itself.
 */
export interface LostRange {
  readonly from: number
  readonly to: number
  /** The frames are damaged on disk; else the outbox has dropped them. */
  readonly damaged?: true
}

interface MutableRange {
  from: number
  to: number
  readonly damaged?: true
}

export interface AddedNumbers {
  /** Ranges that are new or have become larger, as they are now. */
  readonly widened: Iterable<LostRange>
  /** Former last numbers of ranges whose last number has changed. */
  readonly outdated: readonly number[]
}

export class LostRanges {
  readonly #ranges: MutableRange[] = []

  get all(): readonly LostRange[] {
    return this.#ranges
  }

  /** Adds a range after all others. */
  append(range: LostRange): void {
    this.#ranges.push({ ...range })
  }

  /** @param seqs ascending numbers that are in no range yet */
  add(seqs: readonly number[]): AddedNumbers {
    const widened = new Set<MutableRange>()
    const outdated: number[] = []
    for (const seq of seqs) this.#addOne(seq, widened, outdated)
    return { widened, outdated }
  }

  /** Returns the range that contains this number. */
  find(seq: number): LostRange | undefined {
    const range = this.#ranges[this.#indexOf(seq)]
    return range !== undefined && range.from <= seq ? range : undefined
  }

  /** Removes everything up to a number. Returns the last numbers of the ranges that were removed. */
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
    const touchesBehind = behind !== undefined && behind.from === seq + 1 && behind.damaged !== true
    if (before === undefined || before.to + 1 !== seq || before.damaged === true) {
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

  /** Index of the first range that ends at or after this number. */
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
