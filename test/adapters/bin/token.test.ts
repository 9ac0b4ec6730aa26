/** Which given launch tokens are taken, and what is said about the others. */
import { expect, test } from '@jest/globals'
import { realRandom } from '../../../bin/clock.ts'
import { launchToken } from '../../../bin/token.ts'
import { LAUNCH_TOKEN_CHARS_MAX, LAUNCH_TOKEN_CHARS_MIN } from '../../../protocol/limits.ts'
import { readBearer } from '../../../transport/authentication.ts'

const given = (token: string | undefined) => launchToken(token, realRandom)

test('a token of a length within the bounds is taken, and the door can read it', () => {
  for (const length of [LAUNCH_TOKEN_CHARS_MIN, LAUNCH_TOKEN_CHARS_MAX]) {
    const token = '~'.repeat(length)
    expect(given(token)).toEqual({ token })
    expect(readBearer(`Bearer ${token}`)).toBe(token)
  }
})

test('another one is ignored with a warning that does not repeat it', () => {
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

test('none given, none missed', () => {
  for (const none of [undefined, '']) expect(given(none).warning).toBeUndefined()
})
