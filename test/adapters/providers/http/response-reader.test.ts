/** Reading one response from a connection that the test controls. */
import { expect, test } from '@jest/globals'
import { HTTP_ANSWER_BYTES_MAX } from '../../../../protocol/limits.ts'
import { ResponseReader } from '../../../../providers/http/connection-pools.ts'

function fakeConnection() {
  const aborted: string[] = []
  return { aborted, abort: (reason: Error) => void aborted.push(reason.message) }
}

test('a response has its last head, the first value of each header, and all chunks', async () => {
  const [reader, connection] = [new ResponseReader(), fakeConnection()]
  reader.onRequestStart(connection)
  reader.onResponseStart(connection, 103, { link: '</a>' })
  reader.onResponseStart(connection, 200, { etag: '"1"', via: ['a', 'b'], none: undefined })
  // A character may be split between two chunks.
  const bytes = Buffer.from('grün')
  for (const piece of [bytes.subarray(0, 3), bytes.subarray(3)]) reader.onResponseData(connection, piece)
  reader.onResponseEnd()
  expect(await reader.reply).toEqual({ status: 200, headers: { etag: '"1"', via: 'a' }, text: 'grün' })
  expect(connection.aborted).toEqual([])
})

test('a response without a body has an empty text', async () => {
  const [reader, connection] = [new ResponseReader(), fakeConnection()]
  reader.onResponseStart(connection, 304, {})
  reader.onResponseEnd()
  expect(await reader.reply).toEqual({ status: 304, headers: {}, text: '' })
})

test('a response that becomes too long is aborted', async () => {
  const [reader, connection] = [new ResponseReader(), fakeConnection()]
  reader.onRequestStart(connection)
  reader.onResponseStart(connection, 200, {})
  reader.onResponseData(connection, Buffer.alloc(HTTP_ANSWER_BYTES_MAX))
  expect(connection.aborted).toEqual([])
  reader.onResponseData(connection, Buffer.alloc(1))
  reader.onResponseEnd()
  expect(await reader.reply).toBeUndefined()
  expect(connection.aborted).toHaveLength(1)
})

test('a request aborted before its connection opens is not sent', async () => {
  const [reader, connection] = [new ResponseReader(), fakeConnection()]
  reader.abort()
  await expect(reader.reply).rejects.toThrow('too long')
  reader.onRequestStart(connection)
  expect(connection.aborted).toEqual([expect.stringMatching(/too long/)])
})

test('a response that breaks off rejects', async () => {
  const [reader, connection] = [new ResponseReader(), fakeConnection()]
  reader.onRequestStart(connection)
  reader.onResponseStart(connection, 200, {})
  reader.onResponseData(connection, Buffer.from('half'))
  reader.onResponseError(connection, new Error('other side closed'))
  await expect(reader.reply).rejects.toThrow('other side closed')
})
