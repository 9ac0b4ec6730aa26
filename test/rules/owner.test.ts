/** Proofs that the owner of a data directory lives or is dead, and the words that count where there are none. */
import { expect, test } from '@jest/globals'
import {
  describeOwner,
  FIRST_PID_NAMESPACE,
  judgeOwner,
  mayTakeOver,
  type OwnerEvidence,
  type OwnerRecord,
  type OwnerVerdict,
  type OwnPlace,
  type TakeOver,
} from '../../core/owner.ts'

const machine: OwnPlace = { boot: 'boot-1', machine: 'machine-1', pidNamespace: FIRST_PID_NAMESPACE }
const inContainer: OwnPlace = { boot: 'boot-1', pidNamespace: 'pid:[4026532001]' }
const own: OwnerRecord = {
  ...machine,
  pid: 17,
  began: '400',
  nonce: '00',
  hostname: 'forge',
  since: '2026-03-01T08:00:00.000Z',
  kernelLock: true,
}
const { kernelLock: _lock, ...withoutLock } = own
const { machine: _machine, ...withoutMachine } = own
const earlier: OwnerRecord = { pid: 17, began: '400', boot: 'boot-1', nonce: '00' }

/** The process with the id 17 began then; the lock of the kernel is in that state. */
const evidence = (
  began: string | undefined,
  kernelLock: ReturnType<OwnerEvidence['kernelLock']>,
): OwnerEvidence => ({
  startOf: (pid) => (pid === 17 ? began : undefined),
  kernelLock: () => kernelLock,
})
const visible = evidence('400', 'held')
const gone = evidence(undefined, 'free')
const locked = evidence(undefined, 'held')
const silent = evidence(undefined, 'unknown')

test.each<[string, OwnerRecord, OwnPlace, OwnerEvidence, OwnerVerdict]>([
  ['that released the directory', { ...own, released: true }, machine, visible, 'dead'],
  ['that lives in this namespace', own, machine, visible, 'alive'],
  ['that lives, on a file system without locks', withoutLock, machine, evidence('400', 'unknown'), 'alive'],
  ['whose process is gone', own, machine, gone, 'dead'],
  ['whose process is gone, without locks', withoutLock, machine, silent, 'dead'],
  ['whose number another process has now', own, machine, evidence('900', 'free'), 'dead'],
  ['that lives in another container', own, inContainer, locked, 'alive'],
  ['that was killed in another container', own, inContainer, gone, 'dead'],
  [
    'of another container, whose number a process of this namespace has',
    own,
    inContainer,
    evidence('400', 'free'),
    'dead',
  ],
  ['of another container, without locks', withoutLock, inContainer, silent, 'unknown on this kernel'],
  ['of another container, when the lock cannot be asked', own, inContainer, silent, 'unknown on this kernel'],
  ['of an earlier boot of this machine', { ...own, boot: 'boot-0' }, machine, gone, 'dead'],
  ['of an earlier boot, without locks', { ...withoutLock, boot: 'boot-0' }, machine, silent, 'dead'],
  [
    'of another machine',
    { ...own, machine: 'machine-2', boot: 'boot-2' },
    machine,
    gone,
    'unknown elsewhere',
  ],
  [
    'of another machine that shares its locks',
    { ...own, machine: 'm-2', boot: 'b-2' },
    machine,
    locked,
    'alive',
  ],
  ['of a container with a boot id of its own', { ...own, boot: 'boot-2' }, machine, locked, 'alive'],
  ['of another boot, seen from a machine without an id', own, { boot: 'boot-2' }, gone, 'unknown elsewhere'],
  [
    'of a machine without an id, after a boot',
    { ...withoutMachine, boot: 'boot-0' },
    machine,
    gone,
    'unknown elsewhere',
  ],
  ['of Linux, seen from another system', own, { boot: 'unknown' }, silent, 'unknown elsewhere'],
  ['of an earlier version that lives', earlier, machine, visible, 'alive'],
  ['of an earlier version that was killed', earlier, machine, gone, 'dead'],
  [
    'of an earlier version and boot',
    { ...earlier, boot: 'boot-0' },
    machine,
    evidence('400', 'free'),
    'dead',
  ],
  [
    'that holds its lock, whatever its record says',
    { ...earlier, boot: 'garbled' },
    machine,
    locked,
    'alive',
  ],
])('an owner %s', (_name, owner, place, found, verdict) => {
  expect(judgeOwner(owner, place, found)).toBe(verdict)
})

test('an owner that is seen to live costs no question to the kernel', () => {
  const kernelLock = () => {
    throw new Error('asked')
  }
  expect(judgeOwner(own, machine, { startOf: () => '400', kernelLock })).toBe('alive')
})

test.each<[OwnerVerdict, TakeOver | undefined, boolean]>([
  ['dead', undefined, true],
  ['alive', undefined, false],
  ['alive', 'by-hand', false],
  ['alive', 'exclusive-volume', false],
  ['unknown on this kernel', undefined, false],
  ['unknown on this kernel', 'exclusive-volume', false],
  ['unknown on this kernel', 'by-hand', true],
  ['unknown elsewhere', undefined, false],
  ['unknown elsewhere', 'exclusive-volume', true],
  ['unknown elsewhere', 'by-hand', true],
])('an owner that is %s, with the word %s', (verdict, word, may) => {
  expect(mayTakeOver(verdict, word)).toBe(may)
})

test.each([
  ['of this namespace', machine, 'process 17 on forge, since 2026-03-01T08:00:00.000Z'],
  ['outside', inContainer, 'process 17 outside of this container on forge, since 2026-03-01T08:00:00.000Z'],
  ['of another machine', { ...machine, boot: 'b-2' }, 'process 17 on forge, since 2026-03-01T08:00:00.000Z'],
])('the description of an owner %s', (_name, place, description) => {
  expect(describeOwner(own, place)).toBe(description)
})

test('the description of an owner in another container, and of an earlier version', () => {
  const inside = { ...own, ...inContainer }
  expect(describeOwner(inside, machine)).toMatch(/^process 17 in another container on forge, since /)
  expect(describeOwner(earlier, machine)).toBe('process 17')
})
