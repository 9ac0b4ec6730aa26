/** Stories of a machine, told as tests. */
import { expect, test } from '@jest/globals'
import type { AnyStateMachine } from 'xstate'
import { type Story, trail, untold } from './trail.ts'

/** A test for each story, and one that no arrow of the machine is left out of them. */
export function tell(machine: AnyStateMachine, stories: readonly Story[]): void {
  test.each(stories.map((story) => [story.title, story] as const))('%s', (_title, story) => {
    const walked = trail(machine, story.input, story.events)
    if (story.ends === undefined) expect(walked).toEqual(story.trail)
    else expect(walked.at(-1)).toBe(story.ends)
  })

  test(`every arrow of the ${machine.id} is in one of these stories`, () => {
    expect(untold(machine, stories)).toEqual([])
  })
}
