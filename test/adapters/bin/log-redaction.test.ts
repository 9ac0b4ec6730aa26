/** The log redactor hides secrets in every line of the log. */
import { describe, expect, test } from '@jest/globals'
import { LogRedactor } from '../../../bin/process/log-redaction.ts'

describe('the log redactor', () => {
  test.each([
    ['Authorization: Bearer abcdefgh12345678'],
    ['authorization: BEARER\tabcdefgh12345678'],
    ['Authorization: Basic abcdefgh12345678'],
    ['GET /ws?token=abcdefgh12345678 failed'],
    ['/callback?state=x&code=abcdefgh12345678'],
    ['https://user:abcdefgh12345678@code.example/o/n.git'],
    ['wc-abcdefgh12345678abcdefgh12345678abcdefgh123'],
    ['wj-abcdefgh12345678abcdefgh12345678abcdefgh123'],
    ['ghp_abcdefgh12345678abcd and lin_api_abcdefgh12345678'],
    ['sk-ant-api03-abcdefgh12345678'],
  ])('redacts text that looks like a secret: %s', (line) => {
    expect(new LogRedactor().redact(line)).not.toContain('abcdefgh12345678')
  })

  test('redacts known secrets in every encoding', () => {
    const redactor = new LogRedactor()
    const secret = 'pass"word with/slash'
    redactor.addSecrets([secret])
    const line = `${secret} ${JSON.stringify({ secret })} ${encodeURIComponent(secret)}`
    expect(redactor.redact(line)).toBe('*** {"secret":"***"} ***')
  })

  test('keeps a limited number of old secrets, the newest first', () => {
    const redactor = new LogRedactor()
    redactor.addSecrets(['the-old-secret'])
    redactor.addSecrets(['the-new-secret'])
    expect(redactor.redact('the-old-secret the-new-secret')).toBe('*** ***')
    redactor.addSecrets(Array.from({ length: 500 }, (_, at) => `another-secret-${at}`))
    expect(redactor.redact('the-old-secret')).toBe('the-old-secret')
  })

  test('leaves ordinary lines and short secrets unchanged', () => {
    const redactor = new LogRedactor()
    redactor.addSecrets(['short'])
    const line = '{"level":30,"url":"http://127.0.0.1:4400","msg":"a short line about a bearer of news"}'
    expect(redactor.redact(line)).toBe(line)
  })
})
