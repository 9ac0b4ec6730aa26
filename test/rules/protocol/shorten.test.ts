/** Texts that are shortened, at their end or in their middle. */
import { expect, test } from '@jest/globals'
import { shortenEnd, shortenMiddle } from '../../../protocol/shorten.ts'

test.each([
  ['short', 5, 'short'],
  ['shorter', 5, 'shor…'],
  ['emo\ud83d\ude42ji', 5, 'emo…'],
])('%j in %p characters is %j', (text, chars, short) => expect(shortenEnd(text, chars)).toBe(short))

test.each([
  ['sy/eng-412-webhook-backoff', 13, 'sy/eng…ackoff'],
  ['short', 13, 'short'],
  ['ab', 1, '…'],
])('%s in %p characters is %s', (text, chars, short) => expect(shortenMiddle(text, chars)).toBe(short))
