/** Frames, changed lines and keys of the board, without a terminal. */
import { describe, expect, test } from '@jest/globals'
import { FrameTimer, readKeys } from '../../../../bin/cli/top/board-terminal.ts'
import type { BoardLine } from '../../../../bin/cli/top/line.ts'
import { BoardScreen } from '../../../../bin/cli/top/line.ts'
import { createColors } from '../../../../bin/output/colors.ts'
import { createSettableClock } from '../../../support/test-resources.ts'

describe('the screen', () => {
  const colored = () => new BoardScreen(createColors({ isTTY: true }, {}))
  const linesOf = (...texts: string[]): BoardLine[] => texts.map((text) => ({ spans: [{ text }] }))
  const selectionAt = (row: number): BoardLine[] =>
    linesOf('a', 'b').map((line, at) => ({ ...line, isSelected: at === row }))

  test('draws everything at first, then changed lines alone, then nothing', () => {
    const screen = colored()
    expect(screen.draw(linesOf('a', 'b', ''), 80)).toBe(
      '\x1b[H\x1b[2J\x1b[1;1H\x1b[2Ka\x1b[2;1H\x1b[2Kb\x1b[?25l\x1b[1;1H',
    )
    expect(screen.draw(linesOf('a', 'c', ''), 80)).toBe('\x1b[2;1H\x1b[2Kc\x1b[?25l\x1b[1;1H')
    expect(screen.draw(linesOf('a', '', ''), 80)).toBe('\x1b[2;1H\x1b[2K\x1b[?25l\x1b[1;1H')
    expect(screen.draw(linesOf('a', '', ''), 80)).toBe('')
  })

  test('draws everything again when the terminal shows something else', () => {
    const screen = colored()
    screen.draw(linesOf('a', 'b'), 80)
    screen.forget()
    expect(screen.draw(linesOf('a', 'b'), 80)).toMatch(/2J.*a.*b/)
  })

  test('the hidden cursor stands on the selected row, which is reversed', () => {
    expect(colored().draw(selectionAt(1), 3)).toContain('\x1b[7mb  \x1b[27m\x1b[?25l\x1b[2;1H')
  })

  test('without colours the cursor shows the selected row, and moves with it', () => {
    const screen = new BoardScreen(createColors({ isTTY: true }, { NO_COLOR: '1' }))
    expect(screen.draw(selectionAt(0), 3)).toContain('\x1b[?25h\x1b[1;1H')
    expect(screen.draw(selectionAt(1), 3)).toContain('\x1b[?25h\x1b[2;1H')
  })
})

describe('frames', () => {
  function startFrames() {
    const clock = createSettableClock()
    const drawnAt: number[] = []
    const frames = new FrameTimer(() => drawnAt.push(clock.now()), clock)
    return { clock, drawnAt, frames }
  }

  test('are at most four a second, however much changes', () => {
    const { clock, drawnAt, frames } = startFrames()
    frames.start()
    for (let ms = 0; ms < 10_000; ms++) {
      frames.request()
      clock.wind(1)
    }
    expect(drawnAt.length).toBeGreaterThan(35)
    for (const at of drawnAt)
      expect(drawnAt.filter((later) => later >= at && later < at + 1_000).length).toBeLessThanOrEqual(4)
  })

  test('are one a second while nothing changes, and a change is drawn at once', () => {
    const { clock, drawnAt, frames } = startFrames()
    frames.start()
    for (let ms = 0; ms < 5_500; ms += 50) clock.wind(50)
    expect(drawnAt).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000])
    frames.request()
    expect(drawnAt.at(-1)).toBe(5_500)
  })

  test('are none before the start and after the end', () => {
    const { clock, drawnAt, frames } = startFrames()
    frames.request()
    frames.start()
    frames.request()
    frames.stop()
    frames.request()
    clock.wind(10_000)
    expect([drawnAt.length, clock.timerCount()]).toEqual([1, 0])
  })
})

test.each<[string, ReturnType<typeof readKeys>]>([
  ['\x1b[A\x1bOB\x1b[Bk', ['up', 'down', 'down', { letter: 'k' }]],
  ['\r\x03\x1a\x1b', ['enter', 'interrupt', 'suspend', 'escape']],
  // Other keys of the keyboard do nothing, and none of their characters counts as a letter.
  ['\x1b[15~\x1b[1;5C\x1bOPq', [{ letter: 'q' }]],
  ['é漢\t?', [{ letter: '?' }]],
])('keys: %j', (text, keys) => {
  expect(readKeys(text)).toEqual(keys)
})
