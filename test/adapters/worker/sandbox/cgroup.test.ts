/**
 * Tests of control groups: the written files, in a folder that imitates the cgroup file system; and, where this machine
 * allows it, a real group that is filled, killed and removed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { Cgroups } from '../../../../worker/sandbox/cgroup.ts'
import { MemoryGroups, ownMemoryGroup } from '../../../../worker/sandbox/cgroup-v1.ts'
import { testIf } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'
import { until } from '../../../support/until.ts'

const CGROUP_ROOT = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(canMakeOne)

describe('in an imitated cgroup folder', () => {
  function imitateCgroupFolder(controllers: string): [Cgroups, string] {
    const base = tempFolder()
    writeFileSync(join(base, 'cgroup.subtree_control'), controllers)
    return [new Cgroups(base), base]
  }

  test('processes and memory are limited, and an out-of-memory kill ends the whole group', () => {
    const [groups, base] = imitateCgroupFolder('cpu memory pids\n')
    expect([groups.hasController('pids'), groups.hasController('memory')]).toEqual([true, true])
    groups.create('r-1', { processes: 100, memoryMib: 512 })
    const [name = ''] = readdirSync(base).filter((each) => each.endsWith('r-1'))
    expect(name).toMatch(new RegExp(`^worker-\\d+\\.${process.pid}\\.\\d+\\.1\\.r-1$`))
    const written = readdirSync(join(base, name)).map((file) => [
      file,
      readFileSync(join(base, name, file), 'utf8'),
    ])
    expect(Object.fromEntries(written)).toEqual({
      'pids.max': '102',
      'memory.max': '536870912',
      'memory.oom.group': '1',
    })
  })

  test('only available controllers get limits', () => {
    const [groups, base] = imitateCgroupFolder('pids\n')
    expect([groups.hasController('pids'), groups.hasController('memory')]).toEqual([true, false])
    groups.create('r-1', { processes: 1, memoryMib: 1 })
    groups.create('r-2', { processes: 1 })
    const made = readdirSync(base).filter((each) => each.startsWith('worker-'))
    expect(made.map((name) => readdirSync(join(base, name)))).toEqual([['pids.max'], ['pids.max']])
  })

  test('no group is returned where none can be created', () => {
    expect(new Cgroups('/proc/no/such').create('r-1', { processes: 1 })).toBeUndefined()
  })
})

describe('control groups of version 1', () => {
  const mounted = (root: string) =>
    `36 24 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n38 24 0:32 ${root} /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n`
  const groups = (path: string) => `9:name=systemd:/\n5:cpu,cpuacct:/\n4:memory:${path}\n0::/\n`

  test.each<[string, string, string, string | undefined]>([
    ['on a machine', '/', '/service/a', '/sys/fs/cgroup/memory/service/a'],
    ['at the top', '/', '/', '/sys/fs/cgroup/memory'],
    ['in a container, which sees its own part', '/docker/x', '/docker/x/y', '/sys/fs/cgroup/memory/y'],
    ['in a container that moved', '/docker/x', '/docker', '/sys/fs/cgroup/memory'],
  ])('the own group is found %s', (_, root, path, expected) => {
    expect(ownMemoryGroup(mounted(root), groups(path))).toBe(expected)
  })

  test('none is found without a memory controller', () => {
    expect(ownMemoryGroup('36 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw', '0::/a')).toBeUndefined()
    expect(ownMemoryGroup(mounted('/'), '5:cpu:/\n0::/\n')).toBeUndefined()
  })

  test('memory alone is limited, and only where it is asked for', () => {
    const base = tempFolder()
    const made = new MemoryGroups(base)
    expect([made.hasController('pids'), made.hasController('memory')]).toEqual([false, true])
    expect(made.create('r-1', { processes: 1 })).toBeUndefined()
    expect(made.create('r-2', { processes: 1, memoryMib: 3 })).toBeDefined()
    const [name = '', ...others] = readdirSync(base)
    expect(others).toEqual([])
    expect(readFileSync(join(base, name, 'memory.limit_in_bytes'), 'utf8')).toBe('3145728')
    expect(new MemoryGroups('/proc/no/such').create('r-3', { processes: 1, memoryMib: 3 })).toBeUndefined()
  })
})

testIf(CGROUP_ROOT !== undefined, 'needs a cgroup v2')(
  'a real group holds a process and its children, kills them at once and is removed',
  async () => {
    const base = join(CGROUP_ROOT ?? '', `switchyard-test-${process.pid}`)
    mkdirSync(base)
    try {
      const group = new Cgroups(base).create('r-1', { processes: 10 })
      const child = spawn('/bin/sh', ['-c', 'read go; sleep 300 & (setsid sleep 300 &); echo up; sleep 300'])
      expect(group?.addProcess(child.pid as number)).toBe(true)
      child.stdin.write('go\n')
      await once(child.stdout, 'data')
      expect(group?.isEmpty()).toBe(false)
      group?.kill()
      await until('the group is empty', () => group?.isEmpty() === true)
      group?.remove()
      expect(readdirSync(base).filter((name) => name.startsWith('worker-'))).toEqual([])
    } finally {
      rmdirSync(base)
    }
  },
)

function canMakeOne(top: string): boolean {
  const probe = join(top, `switchyard-try-${process.pid}`)
  try {
    readFileSync(join(top, 'cgroup.controllers'))
    mkdirSync(probe)
    rmdirSync(probe)
    return true
  } catch {
    return false
  }
}
