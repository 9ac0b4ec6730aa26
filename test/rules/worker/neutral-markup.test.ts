/** Tests of what an agent's text may do on a code host: be read. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { pullBody, pullTitle } from '../../../worker/git/publish/pull-request-text.ts'
import { neutralizeMarkup, neutralizeMessage } from '../../../worker/git/work/neutral-markup.ts'
import { measureCpuMs } from '../../support/cpu-time.ts'

/** The invisible character is shown as `·`. */
const shown = (text: string): string => neutralizeMarkup(text).replaceAll('\u200b', '·')

test.each<[string, string, string]>([
  ['a mention', 'Thanks @octocat and @org/team!', 'Thanks @·octocat and @·org/team!'],
  ['a mention in emphasis', '_@octocat_', '_@·octocat_'],
  ['an address of mail', 'write to ada@example.com', 'write to ada@example.com'],
  ['a scope in a code span', 'add `@types/node`', 'add `@·types/node`'],
  ['a closing word', 'Fixes #12, closes: other/repo#3', 'Fixes ·#12, closes: ·other/repo#3'],
  [
    'one with an address',
    'resolved https://github.com/a/b/issues/1',
    'resolved ·https://github.com/a/b/issues/1',
  ],
  ['a closing word before emphasis', 'Fixes **#12**, closes \\#3', 'Fixes ·**#12**, closes ·\\#3'],
  [
    'a mention in characters with numbers',
    '&#64;ada @&#x61;da &commat;ada',
    '&·#64;ada @&·#x61;da &·commat;ada',
  ],
  ['a reference in characters with names', 'fixes &num;1', 'fixes &·num;1'],
  ['a character that does nothing', '&lt;b&gt; &amp; &copy;', '&lt;b&gt; &amp; &copy;'],
  ['a closing word without a space', 'Fixes:#12', 'Fixes:·#12'],
  ['a reference alone', 'as in #12', 'as in #12'],
  ['a remote image', '![x](https://evil.example/?q=1)', '!·[x](https://evil.example/?q=1)'],
  ['an image of HTML', '<img src="https://evil.example">', '<·img src="https://evil.example">'],
  ['a type in a code span', '`Promise<void>`', '`Promise<·void>`'],
  ['a comparison', 'a < b, 1<2', 'a < b, 1<2'],
  ['a comment', 'x <!-- y -->', 'x &lt;!-- y -->'],
  ['a closing word across a line end', 'this fixes\n#1', 'this fixes\n·#1'],
  ['one far from its issue', `fixes${' '.repeat(300)}#1`, `fixes${' '.repeat(300)}·#1`],
  ['line ends of old machines', 'a\rb\r\nc', 'a\nb\nc'],
  ['an Arabic number sign', '\u0600\u0661', '\u0600\u0661'],
  ['one in a quotation', '> closes:\n> a/b#1', '> closes:\n> ·a/b#1'],
  ['one in emphasis', '**Fixes** #12', '**Fixes** ·#12'],
  ['a command', 'Done.\n/merge\n  /approve no-issue', 'Done.\n\\/merge\n  \\/approve no-issue'],
  ['a path', '/etc/hosts and\n/srv.d, see /merge', '/etc/hosts and\n/srv.d, see /merge'],
  ['words that skip checks', '[skip ci] [CI-SKIP] [no ci]', '[·skip ci] [·CI-SKIP] [·no ci]'],
  ['a trailer that skips checks', 'skip-checks: true', 'skip-checks·: true'],
  ['a word of Azure', '***NO_CI***', '***NO·_CI***'],
  ['a text hidden in a definition', '[//]: # (say yes)', '[//]·: # (say yes)'],
  ['one in a list', '- [a]: # (say yes)', '- [a]·: # (say yes)'],
  ['one with a long label', '[a\nb]: # (say yes)', '[a\nb]·: # (say yes)'],
  ['a footnote', '[^1]: say yes', '[^1]·: say yes'],
  ['an index', 'x = a[1]: good', 'x = a[1]: good'],
  ['tag characters', 'a\u{e0073}\u{e0061}\u{e0079}b', 'ab'],
  ['characters without a shape', 'p\u00ada\u2060s\ufeffs\u3164 x\ufe0f ☎\ufe0f\ufe0f', 'pass x ☎\ufe0f'],
  ['emoji and joined letters', '👩‍💻 ❤️‍🔥 1️⃣ می‌خواهم', '👩‍💻 ❤️‍🔥 1️⃣ می‌خواهم'],
  ['joiners alone', 'a\u200db \u200c\u200d\u200cc', 'ab c'],
])('%s', (_, text, expected) => {
  expect(shown(text)).toBe(expected)
})

test('a block of code stays as it is, up to its end', () => {
  const block = '```ts\nimport { x } from "@a/b" // fixes #1\nconst y = <T>(x: T) => x\n```'
  expect(shown(`Run:\n${block}\nthen @ada`)).toBe(`Run:\n${block}\nthen @·ada`)
  expect(shown('~~~\n@a\n```\n@b\n~~~~\n@c')).toBe('~~~\n@a\n```\n@b\n~~~~\n@·c')
  expect(shown('````\n```\n@a\n````\n@b')).toBe('````\n```\n@a\n````\n@·b')
})

test('a block of code stays as it is behind one in a list', () => {
  expect(shown('1. Run\n   ```\n   a\n\n   b\n   ```\n```\n@a\n```\n@b')).toBe(
    '1. Run\n   ```\n   a\n\n   b\n   ```\n```\n@a\n```\n@·b',
  )
})

describe('text that only looks like a block of code is neutralized:', () => {
  test.each<[string, string]>([
    ['a fence that its list ends', '- a\n  ```\n@ada\n  ```'],
    ['a fence with a backtick in its name', '```a`b\n@ada'],
    ['a fence in a quotation', '> ```\n> @ada'],
    ['a closed fence, closed with an indentation', '```\nx\n   ```\n@ada'],
    ['a fence that an indented one has opened', '   ```\nx\n```\n@ada\n```'],
    ['one that closed after its list', '- a\n  ```\nx\n   ```\n```\n@ada\n```'],
    ['one that closed after a lesser indentation', '1. a\n   ```\n x\n   ```\n```\n@ada\n```'],
    ['one after another kind of fence', '   ```\n~~~\n```\n~~~\n@ada'],
    ['a fence with a space that closes nothing', '```\nx\n```\u00a0\n```\n@ada\n```'],
    ['a fence with a separator of lines', '~~~\u2028\nx\n~~~\n@ada\n~~~'],
    ['a fence of HTML', '<pre>\n@ada\n</pre>'],
    ['an indented block', '    @ada'],
  ])('%s', (_, text) => {
    expect(shown(text)).toContain('@·ada')
  })
})

test('the longest text takes no longer than reading it', () => {
  const blanks = ' '.repeat(64 * 1024)
  const texts = [
    '\n'.repeat(200_000),
    '- '.repeat(100_000),
    `x\n${'> '.repeat(100_000)}`,
    `\`\`\`\nx${blanks}x\n`,
  ]
  const cpuMs = measureCpuMs(() => {
    for (const text of texts) expect(neutralizeMarkup(`a${text}\nb`).length).toBeGreaterThan(1)
    neutralizeMarkup(`fixes${blanks}${'fix '.repeat(50_000)}`)
  })
  expect(cpuMs).toBeLessThan(2_000)
})

test('nothing is lost: without the invisible characters the text is what it was', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('@a', '```', '~~~', '\n', '![', '<b>', 'fixes #1', ' ', 'x')),
      (parts) => {
        const text = parts.join('')
        expect(neutralizeMarkup(text).replaceAll('\u200b', '')).toBe(text)
      },
    ),
  )
})

describe('the message of a commit:', () => {
  const shownMessage = (text: string): string =>
    neutralizeMessage(Buffer.from(text)).toString().replaceAll('\u200b', '·')

  test.each<[string, string, string]>([
    ['a closing word', 'Mend it\n\nCloses #1\n', 'Mend it\n\nCloses ·#1\n'],
    ['one in what looks like code', '```\nfixes a/b#2\n```', '```\nfixes ·a/b#2\n```'],
    ['a mention', 'as @ada says: “größer”', 'as @·ada says: “größer”'],
    ['a trailer', 'x\n\nCo-authored-by: Ada <ada@example.com>', 'x\n\nCo-authored-by: Ada <ada@example.com>'],
    [
      'a trailer of a bot',
      'Co-authored-by: a[bot] <1+a[bot]@users.noreply.github.com>',
      'Co-authored-by: a[bot] <1+a[bot]@users.noreply.github.com>',
    ],
    ['a mention that imitates one', '[bot]@ada [bot]@users.noreply', '[bot]@·ada [bot]@·users.noreply'],
    ['marks of a program', 'Array<T> and ![x]', 'Array<T> and ![x]'],
    ['escapes for a terminal', 'x\u001b]0;t\u0007\u009b2Jy\u007f', 'x]0;t2Jy'],
    ['another writing direction', 'a\u202eb\u2067c\u061cd\u200fe', 'abcde'],
    ['a command', '/close\n\nwhy\n/assign @ada', ' /close\n\nwhy\n /assign @·ada'],
    ['a closing word across a line end', 'this fixes\r\n#1', 'this fixes\r\n·#1'],
    ['words that skip checks', 'x [skip ci]\n\n\nskip-checks: true', 'x [·skip ci]\n\n\nskip-checks·: true'],
    ['tag characters', 'a\u{e0073}\u{e0061}\ufeffb', 'ab'],
    ['what looks alike in bytes', '“é ا … 👩‍💻”\r\n\ttab', '“é ا … 👩‍💻”\r\n\ttab'],
  ])('%s', (_, text, expected) => {
    expect(shownMessage(text)).toBe(expected)
  })

  test('the longest one takes no longer than reading it', () => {
    const message = Buffer.from(`fix ${'a'.repeat(1024 * 1024)} ${'fix a/'.repeat(10_000)}`)
    const cpuMs = measureCpuMs(() => expect(neutralizeMessage(message)).toEqual(message))
    expect(cpuMs).toBeLessThan(2_000)
  })

  test('bytes that are no UTF-8 stay', () => {
    const message = Buffer.from('Gr\xf6\xdfer', 'latin1')
    expect(neutralizeMessage(message)).toEqual(message)
    const both = Buffer.concat([message, Buffer.from('größer\u{e0061}\n\nFixes #1 👍')])
    const neutral = Buffer.concat([message, Buffer.from('größer\n\nFixes \u200b#1 👍')])
    expect(neutralizeMessage(both)).toEqual(neutral)
    const reversed = Buffer.concat([Buffer.from('a\u202e'), Buffer.of(0x80), Buffer.from('b')])
    expect(neutralizeMessage(reversed)).toEqual(
      Buffer.concat([Buffer.from('a'), Buffer.of(0x80), Buffer.from('b')]),
    )
  })
})

test.each<[string, string]>([
  ['left open', 'See:\n```ts\nconst x = 1'],
  ['left open with tildes', '~~~~\nx\n~~~'],
  ['truncated', `\`\`\`\n${'x\n'.repeat(30_000)}\`\`\``],
])('a block of code %s hides nothing after it', (_, summary) => {
  const ticket = { identifier: 'ENG-1', title: 'x', url: '' }
  const body = pullBody(ticket, summary, { runId: 'run-1', leaseId: 'ls-1' }, { closesIssue: 7 })
  expect(body).toMatch(/\n(```|~~~~)\n\nCloses #7\n\n<!--/)
})

test('a closed block of code stays as it is', () => {
  const body = pullBody({ identifier: 'A', title: 'x', url: '' }, '```\nx\n```', { runId: 'r', leaseId: 'l' })
  expect(body).toContain('```\nx\n```\n\nTicket')
})

test('a title closes nothing and skips no checks', () => {
  const title = pullTitle({ identifier: 'ENG-1', title: 'fixes #3 [skip ci] for @ada', url: '' })
  expect(title.replaceAll('\u200b', '·')).toBe('ENG-1: fixes ·#3 [·skip ci] for @ada')
})

test('the service’s own closing word stays', () => {
  const ticket = { identifier: 'ENG-1', title: 'x', url: '' }
  const body = pullBody(ticket, 'fixes #3', { runId: 'run-1', leaseId: 'ls-1' }, { closesIssue: 7 })
  expect(body).toContain('Closes #7')
  expect(body).not.toContain('fixes #3')
})
