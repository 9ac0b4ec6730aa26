/** Trail tests walk a machine through stories and compare each trail with the recorded one. */
import { expect, test } from '@jest/globals'
import type { AnyStateMachine } from 'xstate'
import { expectRecorded } from '../support/recorded-expectations.ts'
import { type Story, trail, untakenArrows } from './trail.ts'

/** Adds a test for each story, and one that fails when no story takes some arrow of the machine. */
export function testTrails(machine: AnyStateMachine, stories: readonly Story[]): void {
  test.each(stories.map((story) => [story.title, story] as const))('%s', (_title, story) => {
    const lines = trail(machine, story.input, story.events)
    expectRecorded(story.onlyLastLine === true ? lines.slice(-1) : lines)
  })

  test(`every arrow of the ${machine.id} is in one of these stories`, () => {
    expect(untakenArrows(machine, stories)).toEqual([])
  })
}
