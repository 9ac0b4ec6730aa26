/** Questions on a terminal, and what a command does without one. */
import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { Output } from '../../../../bin/output/output.ts'
import { type InputStream, Questions } from '../../../../bin/output/questions.ts'
import { MemoryStream } from '../../../support/memory-stream.ts'

const CTRL_C = '\x03'
const CTRL_D = '\x04'

function person({ stdin = true, stderr = true } = {}) {
  const input = Object.assign(new PassThrough(), { isTTY: stdin, setRawMode: () => {} })
  const words = new MemoryStream(stderr ? { columns: 80 } : {})
  const output = new Output({
    stdout: new MemoryStream(),
    stderr: words,
    env: {},
    platform: 'linux',
    exit: () => {},
  })
  return { input, words, questions: new Questions(input as InputStream, output) }
}

/** The visible text without the sequences that move the cursor. */
const visible = (text: string): string => stripVTControlCharacters(text).replace(/\r/g, '')

describe('yes or no', () => {
  test.each<[string, boolean, boolean]>([
    ['\r', true, true],
    ['\r', false, false],
    ['y\r', false, true],
    ['Yes\r', false, true],
    ['n\r', true, false],
    ['NO\r', true, false],
    ['what\ry\r', false, true],
    ['a\rb\rc\r', true, false],
  ])('%j with the default %s is %s', async (typed, byDefault, expected) => {
    const { input, questions } = person()
    const answer = questions.confirm('Go on?', byDefault)
    for (const line of typed.split(/(?<=\r)/)) {
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
      input.write(line)
    }
    expect(await answer).toBe(expected)
  })

  test.each([
    [true, '3 runs start. Go on? [Y/n]: \n'],
    [false, '3 runs start. Go on? [y/N]: \n'],
  ])('the default %s is in capitals', async (byDefault, shown) => {
    const { input, words, questions } = person()
    const answer = questions.confirm('3 runs start. Go on?', byDefault)
    input.write('\r')
    await answer
    expect(visible(words.text)).toBe(shown)
  })

  test.each([CTRL_C, CTRL_D])('%j ends the command with 130', async (key) => {
    const { input, questions } = person()
    const answer = questions.confirm('Go on?', true)
    input.write(key)
    await expect(answer).rejects.toMatchObject({ code: 130, message: 'nothing was changed' })
  })

  test.each([{ stdin: false }, { stderr: false }])('without a terminal (%j) nobody is asked', async (at) => {
    const { questions, words } = person(at)
    expect(questions.mayAsk).toBe(false)
    await expect(questions.confirm('Go on?', true)).rejects.toMatchObject({ code: 2 })
    await expect(questions.ask('Repository')).rejects.toMatchObject({ code: 2 })
    expect(words.text).toBe('')
  })
})

describe('what destroys', () => {
  const loss = "this deletes ENG-228's sandbox on mica, kept until tomorrow 15:08"
  const command = 'switchyard discard ENG-228'

  test('needs --yes without a terminal, and says what would be lost', async () => {
    const { questions } = person({ stdin: false })
    await expect(questions.confirmLoss({ loss, command })).rejects.toMatchObject({
      code: 2,
      message: loss,
      cure: 'switchyard discard ENG-228 --yes',
    })
    await expect(questions.confirmLoss({ loss, command, yes: true })).resolves.toBeUndefined()
  })

  test.each([
    ['y\r', undefined],
    ['\r', { code: 1, message: 'nothing was changed' }],
  ])('asks on a terminal: %j', async (typed, error) => {
    const { input, words, questions } = person()
    const accepted = questions.confirmLoss({ loss, command })
    input.write(typed)
    if (error === undefined) await accepted
    else await expect(accepted).rejects.toMatchObject(error)
    expect(visible(words.text)).toMatch(/^This deletes .* tomorrow 15:08\. Go on\? \[y\/N\]: /)
  })
})

test.each([
  ['acme/web\r', 'acme/web'],
  ['\r', 'acme/api'],
])('a text %j is read, or its default', async (typed, expected) => {
  const { input, words, questions } = person()
  const answer = questions.ask('Repository', 'acme/api')
  input.write(typed)
  expect(await answer).toBe(expected)
  expect(visible(words.text)).toMatch(/^Repository \[acme\/api\]: /)
})

describe('a secret', () => {
  test('is not echoed', async () => {
    const { input, words, questions } = person()
    const secret = questions.askSecret('the API key')
    input.write('sk-secreX\x7ft\r')
    expect(await secret).toBe('sk-secret')
    expect(visible(words.text)).toBe('The API key (not shown): \n')
  })

  test('is read from a pipe to its end', async () => {
    const { input, questions } = person({ stdin: false })
    input.end('sk-secret\n')
    expect(await questions.askSecret('the API key')).toBe('sk-secret')
  })

  test.each<[string, string]>([
    ['\n', 'the API key is empty'],
    ['x'.repeat(64 * 1024 + 1), 'the API key on standard input is longer than 65536 bytes'],
  ])('of a wrong size is wrong usage', async (text, message) => {
    const { input, questions } = person({ stdin: false })
    input.end(text)
    await expect(questions.askSecret('the API key')).rejects.toMatchObject({ code: 2, message })
  })

  test('is not typed where its prompt would not show', async () => {
    const { questions } = person({ stderr: false })
    await expect(questions.askSecret('the API key')).rejects.toMatchObject({ code: 2 })
  })

  test('interrupted, ends the command with 130', async () => {
    const { input, questions } = person()
    const secret = questions.askSecret('the API key')
    input.write(CTRL_C)
    await expect(secret).rejects.toMatchObject({ code: 130 })
  })
})
