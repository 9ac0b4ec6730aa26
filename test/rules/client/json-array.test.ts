/** Reading a JSON array while it arrives. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { readJsonArray } from '../../../client/json-array.ts'
import { drawSeed } from '../../support/random.ts'

const SEED = drawSeed()

async function* chunksOf(text: string, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}

async function readAll(text: string, sizes: readonly number[]): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const element of readJsonArray(chunksOf(text, sizes))) found.push(element)
  return found
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 6 })
const elements = fc.array(
  fc.oneof(
    fc.jsonValue(),
    fc.record({ text: fc.string({ unit: 'binary' }), brackets: fc.constant(']}"\\[{,') }),
  ),
)

test('gives the elements, however the bytes are split', async () => {
  await fc.assert(
    fc.asyncProperty(elements, sizes, fc.boolean(), async (list, split, isSpaced) => {
      const text = JSON.stringify(list, undefined, isSpaced ? 2 : undefined)
      expect(await readAll(text, split)).toEqual(JSON.parse(text))
    }),
    { seed: SEED },
  )
})

test.each(['[1,{"a":2}', '[', '["text]"', ''])('%j ended too early', async (text) => {
  await expect(readAll(text, [3])).rejects.toThrow('ended too early')
})

test.each(['<html>', '{}', '{"error":"gone"}'])('%j is no list', async (text) => {
  await expect(readAll(text, [100])).rejects.toThrow('no list')
})

test('white space may follow the list', async () => {
  expect(await readAll('[1] \n', [3])).toEqual([1])
})
