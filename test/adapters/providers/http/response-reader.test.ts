/** One answer taken in from a line that does as it likes. */
import { expect, test } from '@jest/globals'
import { HTTP_ANSWER_BYTES_MAX } from '../../../../protocol/limits.ts'
import { ResponseReader } from '../../../../providers/http/response-reader.ts'

function fakeConnection() {
  const aborted: string[] = []
  return { aborted, abort: (reason: Error) => void aborted.push(reason.message) }
}

test('an answer is its last head, the first of each header, and all of its pieces', async () => {
  const [intake, one] = [new ResponseReader(), fakeConnection()]
  intake.onRequestStart(one)
  intake.onResponseStart(one, 103, { link: '</a>' })
  intake.onResponseStart(one, 200, { etag: '"1"', via: ['a', 'b'], none: undefined })
  // A character may stand on the border of two pieces.
  const bytes = Buffer.from('grün')
  for (const piece of [bytes.subarray(0, 3), bytes.subarray(3)]) intake.onResponseData(one, piece)
  intake.onResponseEnd()
  expect(await intake.reply).toEqual({ status: 200, headers: { etag: '"1"', via: 'a' }, text: 'grün' })
  expect(one.aborted).toEqual([])
})

test('one without a body has an empty text', async () => {
  const [intake, one] = [new ResponseReader(), fakeConnection()]
  intake.onResponseStart(one, 304, {})
  intake.onResponseEnd()
  expect(await intake.reply).toEqual({ status: 304, headers: {}, text: '' })
})

test('what becomes too long is not waited for', async () => {
  const [intake, one] = [new ResponseReader(), fakeConnection()]
  intake.onRequestStart(one)
  intake.onResponseStart(one, 200, {})
  intake.onResponseData(one, Buffer.alloc(HTTP_ANSWER_BYTES_MAX))
  expect(one.aborted).toEqual([])
  intake.onResponseData(one, Buffer.alloc(1))
  intake.onResponseEnd()
  expect(await intake.reply).toBeUndefined()
  expect(one.aborted).toHaveLength(1)
})

test('given up while it waits for a line, it is not sent over the one that comes', async () => {
  const [intake, one] = [new ResponseReader(), fakeConnection()]
  intake.abort()
  await expect(intake.reply).rejects.toThrow('too long')
  intake.onRequestStart(one)
  expect(one.aborted).toEqual(['the response took too long'])
})

test('an answer that breaks off is none', async () => {
  const [intake, one] = [new ResponseReader(), fakeConnection()]
  intake.onRequestStart(one)
  intake.onResponseStart(one, 200, {})
  intake.onResponseData(one, Buffer.from('half'))
  intake.onResponseError(one, new Error('other side closed'))
  await expect(intake.reply).rejects.toThrow('other side closed')
})
