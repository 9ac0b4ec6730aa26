/** The launch token: given, ignored with a warning, or random. */
import { expect, test } from '@jest/globals'
import { realRandom } from '../../../bin/clock.ts'
import { launchToken } from '../../../bin/token.ts'
import { LAUNCH_TOKEN_CHARS_MAX, LAUNCH_TOKEN_CHARS_MIN } from '../../../protocol/limits.ts'
import { readBearer } from '../../../transport/authentication.ts'

const given = (token: string | undefined) => launchToken(token, realRandom)

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
