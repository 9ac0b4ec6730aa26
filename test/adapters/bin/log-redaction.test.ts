import { describe, expect, test } from '@jest/globals'
import { Scrubber } from '../../../bin/log-redaction.ts'

describe('the scrubber', () => {
  test.each([
    ['Authorization: Bearer abcdefgh12345678'],
    ['authorization: BEARER\tabcdefgh12345678'],
    ['Authorization: Basic abcdefgh12345678'],
    ['GET /ws?token=abcdefgh12345678 failed'],
    ['/callback?state=x&code=abcdefgh12345678'],
    ['https://user:abcdefgh12345678@code.example/o/n.git'],
    ['wc-abcdefgh12345678abcdefgh12345678abcdefgh123'],
    ['ghp_abcdefgh12345678abcd and lin_api_abcdefgh12345678'],
    ['sk-ant-api03-abcdefgh12345678'],
  ])('strikes out what is shaped like a secret: %s', (line) => {
    expect(new Scrubber().scrub(line)).not.toContain('abcdefgh12345678')
  })

  test('strikes out known secrets in every form a line may show them in', () => {
    const scrubber = new Scrubber()
    const secret = 'pass"word with/slash'
    scrubber.know([secret])
    const line = `${secret} ${JSON.stringify({ secret })} ${encodeURIComponent(secret)}`
    expect(scrubber.scrub(line)).toBe('*** {"secret":"***"} ***')
  })

  test('still knows yesterday’s secrets, the newest ones first, and not without end', () => {
    const scrubber = new Scrubber()
    scrubber.know(['the-old-secret'])
    scrubber.know(['the-new-secret'])
    expect(scrubber.scrub('the-old-secret the-new-secret')).toBe('*** ***')
    scrubber.know(Array.from({ length: 500 }, (_, at) => `another-secret-${at}`))
    expect(scrubber.scrub('the-old-secret')).toBe('the-old-secret')
  })

  test('leaves ordinary lines alone, and short words too', () => {
    const scrubber = new Scrubber()
    scrubber.know(['short'])
    const line = '{"level":30,"url":"http://127.0.0.1:4400","msg":"a short line about a bearer of news"}'
    expect(scrubber.scrub(line)).toBe(line)
  })
})
