/** The terminal's own document: keys of the page among those of the session, output that a screen draws slowly, ends. */
import { describe, expect, test } from '@jest/globals'
import { HostRefusal } from '../../../client/errors.ts'
import { BoundedScreen } from '../../../web/dashboard/terminal/bounded-screen.ts'
import { CommandKeys } from '../../../web/dashboard/terminal/command-keys.ts'
import { endWords, errorWords } from '../../../web/dashboard/terminal/end-words.ts'

describe('Ctrl ] and then a letter', () => {
  const typed = (...keys: readonly string[]) => {
    const watcher = new CommandKeys()
    const found = keys.map((key) => watcher.filter(key))
    return { sent: found.map(({ text }) => text).join(''), command: found.at(-1)?.command }
  }

  test.each([
    [['\x1d', 'd'], '', 'leave'],
    [['\x1d', 'D'], '', 'leave'],
    [['a', '\x1d', 'f'], 'a', 'find'],
    [['a\x1dF'], 'a', 'find'],
    [['\x1d', 'x', 'd'], '\x1dxd', undefined],
    [['\x1d', '\x1d', 'd'], '\x1d', 'leave'],
    [[']', 'd', 'f'], ']df', undefined],
  ])('%j', (keys, sent, command) => {
    expect(typed(...keys)).toEqual({ sent, command })
  })

  test('is found again after the bar was opened', () => {
    const watcher = new CommandKeys()
    watcher.filter('\x1df')
    expect(watcher.filter('ls\x1dd')).toEqual({ text: 'ls', command: 'leave' })
  })
})

test('output that comes faster than it is drawn is dropped, and the whole screen is asked for', () => {
  const drawn: (() => void)[] = []
  const texts: string[] = []
  const output = new BoundedScreen({
    write: (text, onDrawn) => {
      texts.push(text)
      drawn.push(onDrawn)
    },
  })
  let redraws = 0
  output.onRedrawNeeded(() => {
    redraws += 1
  })
  const part = 'x'.repeat(1024 * 1024)
  for (let count = 0; count < 20; count += 1) output.draw(part)
  expect(texts).toHaveLength(5)
  for (const onDrawn of drawn.splice(1)) onDrawn()
  expect(redraws).toBe(0)
  drawn[0]?.()
  expect(redraws).toBe(1)
  output.draw('again')
  expect(texts.at(-1)).toBe('again')
})

test('an end is said in words', () => {
  expect(endWords({ is: 'exited', code: 0 })).toEqual({
    text: 'The session has ended with exit code 0.',
    isProblem: false,
  })
  expect(endWords({ is: 'refused', message: 'there is no run x' }).text).toBe('There is no run x.')
  const refusal = new HostRefusal(
    { url: 'http://127.0.0.1:1' },
    { status: 401, text: '{}' },
    'GET /api/health',
  )
  expect(errorWords(refusal).text).toContain('switchyard dashboard')
  expect(errorWords(new Error('Broken.')).text).toBe('Broken.')
})
