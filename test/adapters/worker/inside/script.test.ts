/** Tests of the scripted agent's language: parsing and error messages. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { parsePrompt, parseScript } from '../../../../examples/scripted-agent/program/script.ts'

const read = (...lines: string[]) => parseScript(lines)
const stepsOf = (...lines: string[]) => {
  const script = read(...lines)
  if (script.is !== 'script') throw new Error(JSON.stringify(script))
  return script.steps
}

describe('the block in a prompt', () => {
  test('is fenced and marked; the text around it is ignored', () => {
    const prompt = 'say no\n\n```switchyard\nsay yes\n```\nsay no'
    expect(parsePrompt(prompt)).toEqual({ is: 'script', steps: [{ does: 'say', text: 'yes', line: 1 }] })
    expect(parsePrompt(prompt.replaceAll('\n', '\r\n'))).toEqual(parsePrompt(prompt))
    expect(parsePrompt('```sh\nsay no\n```')).toEqual({ is: 'none' })
  })

  test('is the last one of several', () => {
    const prompt = '```switchyard\nsay first\n```\n~~~ switchyard\nsay second\n~~~\n'
    expect(parsePrompt(prompt)).toMatchObject({ steps: [{ text: 'second' }] })
  })

  test('may contain fences when its own is longer', () => {
    expect(parsePrompt('````switchyard\nwrite a.md\n  ```\n  x\n  ```\n````')).toMatchObject({
      steps: [{ does: 'write', body: '```\nx\n```\n' }],
    })
  })

  test('must have an end', () => {
    expect(parsePrompt('```switchyard\nsay hi\n')).toMatchObject({
      is: 'bad',
      error: expect.stringContaining('```'),
    })
  })
})

describe('steps', () => {
  test('do not include blank lines and comments', () => {
    expect(stepsOf('', '# say no', '   ')).toEqual([])
  })

  test('have a body of indented lines, including blank lines in between', () => {
    expect(stepsOf('write a/b.txt', '  one', '', '    two', '', 'say end')).toEqual([
      { does: 'write', path: 'a/b.txt', body: 'one\n\n  two\n', line: 1 },
      { does: 'say', text: 'end', line: 6 },
    ])
  })

  test('may have a body that ends with a given word', () => {
    expect(stepsOf('append log <<END', 'not indented', '  indented', 'END')).toEqual([
      { does: 'append', path: 'log', body: 'not indented\n  indented\n', line: 1 },
    ])
  })

  test('edit with old, new and unchanged lines', () => {
    expect(
      stepsOf('edit x.js', '    const a = 1', '  - const b = 2', '  + const b = 3', '  +', '    '),
    ).toMatchObject([{ before: 'const a = 1\nconst b = 2', after: 'const a = 1\nconst b = 3\n' }])
  })

  test('continue a text in a body', () => {
    expect(stepsOf('commit Subject', '  body')).toMatchObject([{ text: 'Subject\nbody' }])
    expect(stepsOf('run', '  cd sub', '  ls')).toMatchObject([{ command: 'cd sub\nls' }])
  })

  test('leave here-documents of shell commands alone', () => {
    expect(stepsOf('run cat > x <<EOF', '  one', '  EOF')).toMatchObject([
      { command: 'cat > x <<EOF\none\nEOF' },
    ])
    expect(stepsOf('run <<END', 'ls', 'END')).toMatchObject([{ command: 'ls' }])
  })

  test.each([
    ['ask-network example.org', { host: 'example.org', port: 443 }],
    ['ask-network [::1]:80', { host: '[::1]', port: 80 }],
    ['wait 0.5', { seconds: 0.5 }],
    ['limit', { minutes: 60 }],
    ['limit 5', { minutes: 5 }],
    ['spam 3', { count: 3 }],
    ['crash 9', { code: 9 }],
    ['hang deaf', { ignoresSignals: true }],
    ['hang', { ignoresSignals: false }],
  ])('%s', (line, fields) => {
    expect(stepsOf(line)).toEqual([{ does: line.split(' ')[0], line: 1, ...fields }])
  })
})

describe('an error names its line', () => {
  test.each<[string, string[], number]>([
    ['an unknown step', ['say hi', 'dance'], 2],
    ['a body where none belongs', ['say hi', '', 'delete x', '  y'], 3],
    ['a body below nothing', ['# a comment', '  y'], 2],
    ['a text without an end', ['write x <<END', 'y'], 1],
  ])('%s', (_, lines, line) => {
    expect(read(...lines)).toMatchObject({ is: 'bad', line })
  })

  test('counted within the block of a prompt', () => {
    expect(parsePrompt('a\nb\n```switchyard\nsay x\n\nwrong\n```')).toMatchObject({ is: 'bad', line: 3 })
  })
})

test('any text can be parsed, and a body is preserved exactly', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      parsePrompt(text)
      parsePrompt(`\`\`\`switchyard\n${text}\n\`\`\``)
    }),
  )
  const line = fc.string().filter((text) => !/[\r\n]/.test(text) && text.trimEnd() !== 'END')
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      expect(stepsOf('write x <<END', ...lines, 'END')).toEqual([
        { does: 'write', path: 'x', body: lines.map((text) => `${text}\n`).join(''), line: 1 },
      ])
    }),
  )
})
