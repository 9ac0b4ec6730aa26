/** Command lines become words without a shell. */
import { expect, test } from '@jest/globals'
import { splitWords } from '../../core/split-words.ts'

test.each<[string, readonly string[]]>([
  ['systemctl stop switchyard-worker', ['systemctl', 'stop', 'switchyard-worker']],
  ['  wake\t00:11:22  ', ['wake', '00:11:22']],
  [`ssh box 'a b' "c 'd' \\"e\\""`, ['ssh', 'box', 'a b', `c 'd' "e"`]],
  ['a\\ b', ['a b']],
  ['a"b c"d', ['ab cd']],
  ["run ''", ['run', '']],
  ['echo $HOME * `id` ; rm', ['echo', '$HOME', '*', '`id`', ';', 'rm']],
  ['["aws", "ec2", "a b"]', ['aws', 'ec2', 'a b']],
])('%s', (line, words) => {
  expect(splitWords(line)).toEqual({ ok: true, value: words })
})

test.each(['', '   ', "a 'b", 'a "b', '[]', '["a", 1]', '["a"', 'a\\'])('%j is refused', (line) => {
  expect(splitWords(line)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
})
