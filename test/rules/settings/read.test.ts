/** Tests of reading a configuration text, at start-up and after a hand edit. */
import { describe, expect, test } from '@jest/globals'
import { adoptEdit } from '../../../core/settings/change.ts'
import { readConfig } from '../../../core/settings/read.ts'
import { configDefaults, SECRET_PATHS } from '../../../protocol/config.ts'
import { CONFIG_BYTES_MAX } from '../../../protocol/limits.ts'
import { createConfig, withSecrets } from '../../support/sample-configs.ts'

const message = (text: string): string => {
  const answer = readConfig(text)
  return answer.ok ? 'fine' : answer.refusal.message
}

describe('reading', () => {
  test('a missing file means every default', () => {
    expect(readConfig(undefined)).toEqual({ ok: true, value: { stored: {}, effective: configDefaults } })
  })

  test('stored is the written text, effective includes the defaults', () => {
    const { stored, effective } = createConfig({ server: { port: 4500 } })
    expect(stored).toEqual({ server: { port: 4500 } })
    expect(effective.server).toEqual({ host: '127.0.0.1', port: 4500, allowedOrigins: [] })
  })

  test('a byte order mark is ignored', () => {
    expect(message('\ufeff{"server": {"port": 1}}')).toBe('fine')
  })

  test.each([
    ['', '/: is not JSON: line 1, column 1, expected a value'],
    [
      '{\n  "server": {\n    "port": 1,\n  }\n}',
      '/: is not JSON: line 4, column 3, expected no comma before the closing }',
    ],
    ['[]', '/: must be an object'],
    ['null', '/: must be an object'],
    ['{"__proto__": {"port": 1}}', '/__proto__: is a key that is never accepted'],
    ['{"server": {"constructor": 1}}', '/server/constructor: is a key that is never accepted'],
    ['{"server": {"port": 1e999}}', '/server/port: is a number out of range'],
    ['{"repos": {"a\\ud800": {"remote": "o/n"}}}', '/repos/a\ufffd: is a key with half of a surrogate pair'],
    [
      `{"agent": {"orchestratorModel": "${'x'.repeat(CONFIG_BYTES_MAX)}"}}`,
      `/: must have at most ${CONFIG_BYTES_MAX} bytes, not ${CONFIG_BYTES_MAX + 36}`,
    ],
  ])('%.40j is refused', (text, expected) => {
    expect(message(text)).toBe(expected)
  })

  test.each([
    ['{"server": {"port": "4400"}}', '/server/port: '],
    ['{"server": {"host": "0.0.0.0"}}', '/server/host: '],
    ['{"sevrer": {}}', '/sevrer: '],
    ['{"repos": {"web": {}}}', '/repos/web/remote: '],
  ])('%s is refused, with the field first', (text, start) => {
    expect(message(text).slice(0, start.length)).toBe(start)
  })

  test.each(SECRET_PATHS)('the mask in place of %s is refused', (path) => {
    const [, section = '', key = ''] = path.split('/')
    expect(message(JSON.stringify({ [section]: { [key]: '***' } }))).toMatch(new RegExp(`^${path}: .*mask`))
  })

  test('no message repeats the text around the fault', () => {
    const secret = 'lin_api_0123456789'
    for (const text of [
      `{"tracker": {"apiKey": "${secret}",}}`,
      `{"tracker": {"apiKey": "${secret}}}`,
      `{"tracker": {"apiKey": ${secret}}}`,
      `{"tracker": {"apiKey": ["${secret}"]}}`,
      `{"tracker": {"apiKey": "${secret} with spaces"}}`,
      `{"codehost": {"driver": "github", "token": {"${'x'.repeat(5)}": "${secret}"}}}`,
    ]) {
      expect(message(text)).not.toBe('fine')
      expect(message(text)).not.toContain(secret)
    }
  })
})

describe('adopting a hand edit', () => {
  const current = createConfig({ server: { port: 4500 } })
  const noFault = () => undefined
  const adopt = (stored: unknown) => {
    const answer = adoptEdit(current, JSON.stringify(stored), noFault)
    return answer.ok ? answer.value : answer.refusal.message
  }

  test('a hand edit may change credentials, as at start-up', () => {
    expect(adopt(withSecrets({ server: { port: 4500 } }, SECRET_PATHS))).toMatchObject({
      restartNeeded: false,
    })
  })

  test('changing a bound setting needs a restart; writing down its default does not', () => {
    expect(adopt({ server: { port: 4600 } })).toMatchObject({ restartNeeded: true })
    expect(adopt({})).toMatchObject({ restartNeeded: true })
    expect(adopt({ server: { port: 4500, host: '127.0.0.1' }, fleet: { port: 4401 } })).toMatchObject({
      restartNeeded: false,
    })
  })

  test('a masked credential, a bad value or a half-written file is refused as at start-up', () => {
    expect(adopt({ tracker: { apiKey: '***' } })).toMatch(/^\/tracker\/apiKey: /)
    expect(adopt({ server: { port: -1 } })).toMatch(/^\/server\/port: /)
    expect(adoptEdit(current, '{"server": ', noFault)).toMatchObject({
      ok: false,
      refusal: { kind: 'invalid' },
    })
    expect(adoptEdit(current, '', noFault)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  })

  test('listeners that the next start would not open are refused', () => {
    expect(adopt({ server: { port: 4500 }, fleet: { host: '0.0.0.0' } })).toMatch(
      /^\/fleet\/host: 0\.0\.0\.0 lets /,
    )
    expect(adopt({ server: { port: 4500 }, fleet: { host: '0.0.0.0', insecure: true } })).toMatchObject({
      restartNeeded: true,
    })
  })

  test('a removed file does not mean every default', () => {
    expect(adoptEdit(current, undefined, noFault)).toMatchObject({
      ok: false,
      refusal: { message: expect.stringMatching(/^\/: is gone/) },
    })
  })
})
