/** The words for the gaps that the escape test finds in a sandbox. */
import { expect, test } from '@jest/globals'
import { findEscapes, NAMESPACES } from '../../../worker/sandbox/local-machine.ts'

const host = {
  pid: 4711,
  port: 1,
  home: '/home/me',
  inode: '1:2',
  namespaces: NAMESPACES.map((kind) => `${kind}:[1]`),
}

/** The output of the test in a sandbox that isolates. */
const isolated = [
  ...['mount', 'core_pattern', 'kill', 'loopback', 'home'].map((attempt) => `refused ${attempt}`),
  ...NAMESPACES.map((kind) => `namespace ${kind}:[2]`),
  'CapEff:\t0000000000000000',
  'CapBnd:\t0000000000000000',
  'NoNewPrivs:\t1',
  'Seccomp:\t2',
].join('\n')

test.each([
  ['refused mount', 'done mount', 'mounting in a user namespace of its own was possible'],
  ['refused core_pattern', 'done core_pattern', "writing the kernel's core_pattern was possible"],
  ['refused kill', 'done kill', 'reaching a process of the host was possible'],
  ['refused loopback', 'done loopback', "connecting to the host's loopback was possible"],
  ['refused home', 'done home', "seeing the host's home folder was possible"],
  ['refused home', '', "seeing the host's home folder was not tried"],
  ['namespace net:[2]', 'namespace net:[1]', "the net namespace is the host's"],
  ['namespace user:[2]', 'namespace ', "the user namespace is the host's"],
  ['Seccomp:\t2', 'Seccomp:\t0', 'system calls are not filtered'],
  ['NoNewPrivs:\t1', 'NoNewPrivs:\t0', 'programs may gain rights'],
  ['CapBnd:\t0000000000000000', 'CapBnd:\t00000000a80425fb', 'it could gain capabilities'],
  ['CapEff:\t0000000000000000', 'CapEff:\t0000000000200000', 'it has capabilities'],
])('a sandbox that reports %j as %j', (right, wrong, words) => {
  expect(findEscapes(isolated, host)).toBeUndefined()
  expect(findEscapes(isolated.replace(right, wrong), host)).toBe(`it does not isolate: ${words}`)
})

test('several gaps are listed', () => {
  const output = isolated.replace('Seccomp:\t2', 'Seccomp:\t0').replace('refused home', 'done home')
  expect(findEscapes(output, host)).toBe(
    "it does not isolate: seeing the host's home folder was possible, system calls are not filtered",
  )
})

test('a missing tool', () => {
  expect(findEscapes(`missing stat\nmissing cat\n${isolated}`, host)).toBe(
    'it cannot be tested without stat, cat; install util-linux and coreutils',
  )
})
