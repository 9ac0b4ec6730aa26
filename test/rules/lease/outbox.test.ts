/** Tests of the outbox against a host that applies frames: numbering, keeping, dropping, sending. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  type FrameMetadata,
  Outbox,
  type OutboxOptions,
  type StoredFrame,
} from '../../../core/lease/outbox.ts'
import { addLostRange, INITIAL_WATERMARK, judgeFrame, judgeLostRange } from '../../../core/lease/watermark.ts'
import { measureCpuMs } from '../../support/cpu-time.ts'

/** A disk that keeps committed changes. */
class Disk {
  readonly frames = new Map<number, StoredFrame>()
  acked = 0

  open(bounds: Partial<OutboxOptions> = {}): Outbox {
    const outbox = new Outbox({ read: (seq) => this.#textOf(seq), ...bounds })
    outbox.restore(
      this.acked,
      [...this.frames].sort(([a], [b]) => a - b),
    )
    return outbox
  }

  save(outbox: Outbox): void {
    const taken = outbox.takeChanges()
    if (taken === undefined) return
    for (const [seq, frame] of taken.frames) {
      if (frame === null) this.frames.delete(seq)
      else this.frames.set(seq, frame)
    }
    this.acked = taken.acked ?? this.acked
    taken.onCommitted()
  }

  isNamedLost(seq: number): boolean {
    return [...this.frames].some(([to, frame]) => frame.as === 'gap' && frame.from <= seq && seq <= to)
  }

  #textOf(seq: number): string {
    const frame = this.frames.get(seq)
    if (frame === undefined || frame.as === 'gap') throw new Error(`frame ${seq} is not on disk`)
    return frame.text
  }
}

const must: FrameMetadata = { as: 'must' }
const may: FrameMetadata = { as: 'may' }
const part = (artifact: string, number: number, final = false): FrameMetadata => ({
  as: 'part',
  artifact,
  part: number,
  final,
})

/** Returns everything that may be sent above a number, as text. */
function above(outbox: Outbox, after = 0): string[] {
  const items: string[] = []
  for (let next = outbox.next(after); next !== undefined; next = outbox.next(next.seq))
    items.push(next.is === 'gap' ? `gap ${next.from}–${next.seq}` : `${next.seq} ${next.text}`)
  return items
}

function stamped(outbox: Outbox, ...notes: readonly FrameMetadata[]): void {
  for (const note of notes) outbox.append(note, (seq) => `${note.as}${seq}`)
}

describe('an outbox', () => {
  test('sends only frames that are on disk', () => {
    const disk = new Disk()
    const outbox = disk.open()
    stamped(outbox, must, may)
    expect(above(outbox)).toEqual([])
    const taken = outbox.takeChanges()
    stamped(outbox, may)
    taken?.onCommitted()
    expect(above(outbox)).toEqual(['1 must1', '2 may2'])
    expect(outbox.unsavedBytes).toBe('may3'.length)
  })

  test('deletes acknowledged frames, on disk all but the newest, and continues the numbers after a restart', () => {
    const disk = new Disk()
    const outbox = disk.open()
    stamped(outbox, must, may, must)
    disk.save(outbox)
    expect(outbox.acknowledge(3)).toBe(true)
    expect(outbox.acknowledge(3)).toBe(false)
    disk.save(outbox)
    expect([[...disk.frames.keys()], disk.acked]).toEqual([[3], 3])
    const again = disk.open()
    stamped(again, may)
    disk.save(again)
    expect(above(again)).toEqual(['4 may4'])
    expect([...disk.frames.keys()]).toEqual([4])
  })

  test('drops the oldest droppable frames, a quarter at once, and names them in as few ranges as possible', () => {
    const disk = new Disk()
    const outbox = disk.open({ framesMax: 8 })
    stamped(outbox, must, may, may, must, may, may, may, may, may)
    disk.save(outbox)
    expect(above(outbox)).toEqual([
      '1 must1',
      'gap 2–3',
      '4 must4',
      '5 may5',
      '6 may6',
      '7 may7',
      '8 may8',
      '9 may9',
    ])
    stamped(outbox, may, may, may)
    disk.save(outbox)
    expect(above(outbox)).toEqual([
      '1 must1',
      'gap 2–3',
      '4 must4',
      'gap 5–6',
      ...[7, 8, 9, 10, 11, 12].map((seq) => `${seq} may${seq}`),
    ])
  })

  test('has a limit in bytes as well', () => {
    const disk = new Disk()
    const outbox = disk.open({ bytesMax: 100 })
    for (let n = 0; n < 5; n++) outbox.append(may, () => 'x'.repeat(30))
    disk.save(outbox)
    expect([outbox.bytes, outbox.frames, outbox.lostRanges]).toEqual([90, 3, [{ from: 1, to: 2 }]])
  })

  test('never drops frames that must arrive, whatever the limit', () => {
    const disk = new Disk()
    const outbox = disk.open({ framesMax: 2 })
    stamped(outbox, must, must, must, may, must)
    disk.save(outbox)
    expect(above(outbox)).toEqual(['1 must1', '2 must2', '3 must3', 'gap 4–4', '5 must5'])
  })

  test('drops an artifact as a whole: earlier, later and future parts', () => {
    const disk = new Disk()
    const outbox = disk.open({ framesMax: 6 })
    stamped(outbox, part('a', 0), must, part('a', 1), part('b', 0, true), part('a', 2), must, may)
    stamped(outbox, part('a', 3, true), part('a', 0, true))
    disk.save(outbox)
    expect(above(outbox)).toEqual([
      'gap 1–1',
      '2 must2',
      'gap 3–3',
      '4 part4',
      'gap 5–5',
      '6 must6',
      '7 may7',
      'gap 8–8',
      '9 part9',
    ])
  })

  test('names a lost range on disk too, under its last number', () => {
    const disk = new Disk()
    const outbox = disk.open({ framesMax: 4 })
    stamped(outbox, may, may, may, may)
    disk.save(outbox)
    stamped(outbox, may, may, may)
    disk.save(outbox)
    const before = above(outbox)
    expect(before[0]).toBe('gap 1–4')
    expect([...disk.frames.keys()]).toEqual([4, 5, 6, 7])
    expect(disk.frames.get(4)).toEqual({ as: 'gap', from: 1 })
    expect(above(disk.open())).toEqual(before)
  })

  test('names a lost range only once its current extent is on disk', () => {
    const disk = new Disk()
    const outbox = disk.open({ framesMax: 4 })
    stamped(outbox, must, may, may, may)
    disk.save(outbox)
    stamped(outbox, may, may)
    const taken = outbox.takeChanges()
    expect(above(outbox)).toEqual(['1 must1'])
    stamped(outbox, may)
    taken?.onCommitted()
    expect(outbox.lostRanges).toEqual([{ from: 2, to: 4 }])
    expect(above(outbox)).toEqual(['1 must1'])
    disk.save(outbox)
    expect(above(outbox)).toEqual(['1 must1', 'gap 2–4', '5 may5', '6 may6', '7 may7'])
  })

  test('accepts no frame after the completion', () => {
    const disk = new Disk()
    const outbox = disk.open()
    stamped(outbox, must, { as: 'end' }, must)
    disk.save(outbox)
    expect([outbox.completion, outbox.lastSeq]).toEqual([2, 2])
    expect(disk.open().completion).toBe(2)
  })

  test('continues after the host’s number when the host has more frames than the disk', () => {
    const disk = new Disk()
    const outbox = disk.open()
    outbox.acknowledge(7)
    stamped(outbox, must)
    disk.save(outbox)
    expect(above(outbox)).toEqual(['8 must8'])
  })

  test('names a frame that is missing on its disk, so that the host does not wait for it forever', () => {
    const disk = new Disk()
    const outbox = disk.open()
    stamped(outbox, must, may, must)
    disk.save(outbox)
    disk.frames.delete(2)
    const again = disk.open()
    expect(above(again)).toEqual(['1 must1'])
    disk.save(again)
    expect(above(again)).toEqual(['1 must1', 'gap 2–2', '3 must3'])
    expect(disk.frames.get(2)).toEqual({ as: 'gap', from: 2 })
  })

  test('has a constant cost per frame, however long frames cannot be sent', () => {
    const time = (count: number) => {
      const disk = new Disk()
      const outbox = disk.open({ framesMax: 1_000 })
      const cpuMs = measureCpuMs(() => {
        for (let n = 0; n < count; n++) {
          outbox.append(n % 50 === 0 ? part(`a${n}`, 0, true) : may, () => 'text')
          if (n % 500 === 0) disk.save(outbox)
        }
      })
      return cpuMs / count
    }
    time(20_000)
    expect(time(160_000)).toBeLessThan(Math.max(0.05, 8 * time(20_000)))
  })
})

// ---- with a host that counts along ---------------------------------------------------------------------------------

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('may', 'may', 'must').map((as) => ({ do: 'stamp' as const, as })) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('part' as const),
      name: fc.constantFrom('a', 'b'),
      final: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('save' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('send' as const), count: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('ack' as const), rewind: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose the line' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
)

test('the host receives every frame that must arrive, once and in order, and learns of every lost frame', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), fc.integer({ min: 2, max: 12 }), (steps, framesMax) => {
      const disk = new Disk()
      let outbox = disk.open({ framesMax })
      let host = INITIAL_WATERMARK
      let durable = INITIAL_WATERMARK
      let cursor = 0
      const texts = new Map<number, string>()
      const applied: string[] = []
      const owed = new Map<number, string>()
      const parts = new Map<string, number>()
      let count = 0

      const stamp = (note: FrameMetadata) => {
        const text = `${note.as} ${++count}`
        const seq = outbox.append(note, () => text)
        if (seq !== undefined && note.as === 'must') owed.set(seq, text)
      }
      const send = (count: number) => {
        for (let n = 0; n < count; n++) {
          const next = outbox.next(cursor)
          if (next === undefined) return
          cursor = next.seq
          if (next.is === 'gap') {
            for (let seq = next.from; seq <= next.seq; seq++) expect(disk.isNamedLost(seq)).toBe(true)
            const lost = judgeLostRange(host.mark, next.from, next.seq)
            if (typeof lost === 'string') continue
            for (let seq = lost[0]; seq <= lost[1]; seq++) expect(owed.has(seq)).toBe(false)
            host = addLostRange(host, lost)
            continue
          }
          // A number belongs to one text forever.
          expect(texts.get(next.seq) ?? next.text).toBe(next.text)
          texts.set(next.seq, next.text)
          if (judgeFrame(host.mark, next.seq) !== 'next') continue
          host = { mark: next.seq, lost: host.lost }
          applied.push(next.text)
        }
      }
      const acknowledge = (rewind: boolean) => {
        durable = host
        outbox.acknowledge(durable.mark)
        if (rewind || cursor < durable.mark) cursor = durable.mark
      }

      for (const step of steps) {
        if (step.do === 'stamp') stamp({ as: step.as as 'may' | 'must' })
        else if (step.do === 'part') {
          const number = parts.get(step.name) ?? 0
          parts.set(step.name, step.final ? 0 : number + 1)
          stamp(part(step.name, number, step.final))
        } else if (step.do === 'save') disk.save(outbox)
        else if (step.do === 'send') send(step.count)
        else if (step.do === 'ack') acknowledge(step.rewind)
        else if (step.do === 'lose the line') cursor = durable.mark
        else {
          outbox = disk.open({ framesMax })
          for (const seq of [...owed.keys()]) if (seq > outbox.lastSeq) owed.delete(seq)
          for (const seq of [...texts.keys()]) expect(seq).toBeLessThanOrEqual(outbox.lastSeq)
          parts.clear()
          cursor = durable.mark
        }
        const kept = outbox.frames - [...owed.keys()].filter((seq) => seq > outbox.acked).length
        expect(kept).toBeLessThanOrEqual(framesMax)
      }

      stamp({ as: 'must' })
      for (let round = 0; round < 3; round++) {
        disk.save(outbox)
        acknowledge(true)
        send(Number.POSITIVE_INFINITY)
      }
      acknowledge(true)
      disk.save(outbox)
      expect(host.mark).toBe(outbox.lastSeq)
      expect(applied.filter((text) => text.startsWith('must'))).toEqual([...owed.values()])
      expect([outbox.frames, outbox.lostRanges.length, ...disk.frames.keys()]).toEqual([0, 0, outbox.lastSeq])
    }),
    { numRuns: 1_000 },
  )
})
