import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { createMachine, setup } from 'xstate'
import { daemonKinds } from '../actors/daemon/modules.ts'
import { hostKinds } from '../actors/root/modules.ts'
import type { Chart } from '../build/draw-charts.ts'
import { CHARTS, drawMachineFiles, MACHINES, machineKinds } from '../build/draw-machines.ts'
import { readMachineTable } from '../build/machine-table.ts'

test('machines.md and docs/machines are what the machines are (npm run machines)', async () => {
  const drawn = await drawMachineFiles(readFileSync(MACHINES, 'utf8'))
  expect(
    [...drawn].filter(([path, text]) => readFileSync(path, 'utf8') !== text).map(([path]) => path),
  ).toEqual([])
  expect(
    readdirSync(CHARTS)
      .map((name) => join(CHARTS, name))
      .sort(),
  ).toEqual([...drawn.keys()].filter((path) => path !== MACHINES).sort())
})

test.each(machineKinds)('the section of $name says why it is there and what of it is on disk', ({ name }) => {
  const section =
    readFileSync(MACHINES, 'utf8')
      .split(/^## /m)
      .find((text) => text.startsWith(`${name}\n`)) ?? ''
  const prose = section.slice(name.length, section.indexOf('<!--')).trim().split('\n\n')
  expect(prose.length).toBeGreaterThanOrEqual(2)
  expect(prose.join(' ')).toMatch(/on disk|never in this machine/i)
})

test('a chart has every state and each pair of states that an arrow joins, and no colours of its own', async () => {
  const { run } = JSON.parse(readFileSync(join(CHARTS, 'charts.json'), 'utf8')) as Record<string, Chart>
  for (const { path } of run?.states ?? []) expect(run?.svg).toContain(`id="n:${path}"`)
  expect(run?.svg).toContain('id="e:queued&gt;preparing"')
  expect(run?.svg.match(/id="e:running&gt;failed"/g)).toHaveLength(1)
  expect(run?.svg).not.toMatch(/style|fill=|stroke=/)
  expect(run?.arrows.filter(({ from, to }) => from === 'running' && to === 'failed').length).toBeGreaterThan(
    1,
  )
})

describe('charts', () => {
  test('show every state, arrow, guard and deed, eventless ones too', () => {
    const machine = setup({
      guards: { ready: () => true },
      actions: { greet: () => {}, wave: () => {} },
    }).createMachine({
      id: 'm',
      initial: 'a',
      on: { stop: { target: '.b.done', actions: 'wave' } },
      states: {
        a: {
          entry: 'greet',
          always: { guard: 'ready', target: 'b' },
          on: { go: { target: 'b', actions: ['greet', 'wave'] } },
        },
        b: { initial: 'x', states: { x: {}, done: { type: 'final' } } },
      },
    })
    const chart = readMachineTable(machine)
    expect(chart.states.map((state) => `${state.path}:${state.kind}`)).toEqual([
      ':nested',
      'a:plain',
      'b:nested',
      'b.x:plain',
      'b.done:final',
    ])
    expect(chart.transitions).toEqual([
      { from: '', to: 'b.done', event: 'stop', guard: undefined, actions: ['wave'] },
      { from: 'a', to: 'b', event: undefined, guard: 'ready', actions: [] },
      { from: 'a', to: 'b', event: 'go', guard: undefined, actions: ['greet', 'wave'] },
    ])
  })

  test('refuse what has no name', () => {
    expect(() => readMachineTable(createMachine({ on: { go: { actions: () => {} } } }))).toThrow(/no name/)
    expect(() => readMachineTable(createMachine({ on: { go: { guard: () => true } } }))).toThrow(/no name/)
  })

  test('refuse parallel states', () => {
    expect(() => readMachineTable(createMachine({ type: 'parallel', states: { a: {} } }))).toThrow(/parallel/)
  })
})

describe('the machines of the host and of a worker', () => {
  test.each(
    [...hostKinds, ...daemonKinds].map(({ name, logic }) => [name, readMachineTable(logic)] as const),
  )('%s is drawn under its own name, and each state says what it is', (name, chart) => {
    expect(chart.id).toBe(name)
    expect(chart.states.filter(({ path, description }) => path !== '' && description === undefined)).toEqual(
      [],
    )
    expect(readFileSync('machines.md', 'utf8')).toContain(`\n## ${name}\n`)
  })

  test('are all that a host knows: runs, leases, workers, lines, terminals, the local worker, the intake, the tracker, the flows of connecting and provisioning, the settings and the root', () => {
    expect(hostKinds.map(({ name }) => name).sort()).toEqual([
      'attach',
      'connection',
      'device-flow',
      'intake',
      'journey',
      'lease',
      'local-worker',
      'provision',
      'root',
      'run',
      'settings',
      'tracker',
      'worker',
    ])
  })

  test('of which a worker has four: its own, its link to the host, an execution for each lease, and each booted sandbox', () => {
    expect(daemonKinds.map(({ name }) => name).sort()).toEqual(['booted', 'daemon', 'execution', 'link'])
  })
})
