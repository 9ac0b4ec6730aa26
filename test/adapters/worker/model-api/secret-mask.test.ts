import { describe, expect, test } from '@jest/globals'
import { SecretMask } from '../../../../worker/model-api/secret-mask.ts'

const KEY = 'sk-ant-api03-the-key-of-a-person'

function passThrough(text: string, pieceBytes: number): string {
  const mask = new SecretMask([KEY])
  const bytes = Buffer.from(text)
  const passed: Buffer[] = []
  for (let at = 0; at < bytes.length; at += pieceBytes)
    passed.push(mask.push(bytes.subarray(at, at + pieceBytes)))
  return Buffer.concat([...passed, mask.flush()]).toString()
}

describe('the mask', () => {
  const masked = '*'.repeat(KEY.length)

  test.each([1, 2, 3, 7, 31, 32, 33, 1000])('finds a secret in pieces of %i bytes', (pieceBytes) => {
    expect(passThrough(`a ${KEY} b sk-ant ${KEY}${KEY}`, pieceBytes)).toBe(
      `a ${masked} b sk-ant ${masked}${masked}`,
    )
  })

  test.each([
    ['base64', Buffer.from(`Bearer ${KEY}`).toString('base64')],
    ['a JSON string', JSON.stringify({ echo: `x-api-key: ${KEY}` })],
    ['an address', `https://example.org/?key=${encodeURIComponent(KEY)}`],
  ])('finds it as %s, and keeps the length', (_form, text) => {
    const result = passThrough(text, 5)
    expect(result).toHaveLength(text.length)
    expect(result).toContain('***')
    expect(result).not.toContain(KEY.slice(4))
    expect(Buffer.from(result, 'base64').toString()).not.toContain(KEY.slice(4))
  })

  test('passes everything else on unchanged, and holds back only what may be a beginning', () => {
    const mask = new SecretMask([KEY])
    expect(mask.push(Buffer.from('data: {"a":1}\n\n')).toString()).toBe('data: {"a":1}\n\n')
    expect(mask.push(Buffer.from('ends with sk-ant')).toString()).toBe('ends with ')
    expect(mask.push(Buffer.from('-nothing')).toString()).toBe('sk-ant-nothing')
    expect(mask.flush().toString()).toBe('')
  })

  test('without secrets changes nothing', () => {
    const mask = new SecretMask([])
    expect(mask.push(Buffer.from(KEY)).toString()).toBe(KEY)
  })
})
