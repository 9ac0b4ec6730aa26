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
