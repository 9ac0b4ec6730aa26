/** The launch token: given, ignored with a warning, or random. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { realRandom } from '../../../bin/process/clock.ts'
import { LAUNCH_TOKEN_CHARS_MIN, launchToken } from '../../../bin/programs/serve/launch-file.ts'
import { LAUNCH_TOKEN_CHARS_MAX } from '../../../protocol/limits.ts'
import { readBearer } from '../../../transport/request-checks.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const given = (token: string | undefined) => launchToken({ SWITCHYARD_TOKEN: token }, realRandom)

test('a given token of allowed length is used, and the server can read it', () => {
  for (const length of [LAUNCH_TOKEN_CHARS_MIN, LAUNCH_TOKEN_CHARS_MAX]) {
    const token = '~'.repeat(length)
    expect(given(token)).toEqual({ token })
    expect(readBearer(`Bearer ${token}`)).toBe(token)
  }
})

test('any other given token is ignored with a warning that does not contain it', () => {
  for (const wrong of [
    'x'.repeat(LAUNCH_TOKEN_CHARS_MIN - 1),
    'x'.repeat(LAUNCH_TOKEN_CHARS_MAX + 1),
    `${'x'.repeat(40)} `,
    `${'x'.repeat(40)}\n`,
  ]) {
    const { token, warning } = given(wrong)
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(warning).toContain('must be 32 to 512 printable characters')
    expect(warning).not.toContain(wrong)
  }
})

test('without a given token there is no warning', () => {
  for (const none of [undefined, '']) expect(given(none).warning).toBeUndefined()
})

test('a token in a file is used, unless a token is given itself', () => {
  const SWITCHYARD_TOKEN_FILE = join(tempFolder(), 'token')
  const inFile = 'f'.repeat(40)
  writeFileSync(SWITCHYARD_TOKEN_FILE, `${inFile}\n`)
  expect(launchToken({ SWITCHYARD_TOKEN_FILE }, realRandom)).toEqual({ token: inFile })
  const itself = 'i'.repeat(40)
  const both = { SWITCHYARD_TOKEN: itself, SWITCHYARD_TOKEN_FILE }
  expect(launchToken(both, realRandom)).toEqual({ token: itself })
})

test('a file that cannot be read, or holds no token, is ignored with a warning', () => {
  const SWITCHYARD_TOKEN_FILE = join(tempFolder(), 'token')
  const warningOf = () => launchToken({ SWITCHYARD_TOKEN_FILE }, realRandom).warning
  expect(warningOf()).toMatch(/^SWITCHYARD_TOKEN_FILE is ignored: \S+ cannot be read/)
  writeFileSync(SWITCHYARD_TOKEN_FILE, 'short')
  expect(warningOf()).toMatch(/^SWITCHYARD_TOKEN_FILE is ignored: it must be 32/)
})
