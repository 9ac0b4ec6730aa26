/**
 * Translates the eligibility rules into a filter of Linear's API.
 *
 * The filter only saves reading: the host decides what is eligible. A rule with several meanings (name, slug or id of a
 * project) matches all of them.
 */
import type { TrackerQuery } from '../../../core/ports.ts'
import { CLOSED_TYPES } from './issue.ts'

export type LinearFilter = Readonly<Record<string, unknown>>

const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i

/** Linear refuses the whole query when an id is not a UUID. */
export const isUuid = (text: string): boolean => UUID.test(text)

export function buildScope({ states, labels, projects, assignees }: TrackerQuery['rules']): LinearFilter {
  return {
    and: [
      { state: { type: { nin: CLOSED_TYPES } } },
      ...anyOf(states, (named) => ({ state: { or: named.map((name) => ({ name: equalsName(name) })) } })),
      ...anyOf(labels, (named) => ({
        labels: { some: { or: named.map((name) => ({ name: equalsName(name) })) } },
      })),
      ...anyOf(projects, (named) => ({ project: { or: named.flatMap(projectFilters) } })),
      ...anyOf(assignees, (named) => ({ assignee: { or: named.flatMap(personFilters) } })),
    ],
  }
}

/** An empty list adds no condition. */
function anyOf(names: readonly string[], filter: (names: readonly string[]) => LinearFilter): LinearFilter[] {
  return names.length === 0 ? [] : [filter(names.map((name) => name.trim()))]
}

export const equalsName = (name: string): LinearFilter => ({ eqIgnoreCase: name })

export function projectFilters(name: string): LinearFilter[] {
  const byId = isUuid(name) ? [{ id: { eq: name.toLowerCase() } }] : []
  return [{ name: equalsName(name) }, { slugId: equalsName(name) }, ...byId]
}

export function personFilters(name: string): LinearFilter[] {
  const isMe = name.toLowerCase() === 'me' ? [{ isMe: { eq: true } }] : []
  return [{ displayName: equalsName(name) }, { name: equalsName(name) }, { email: equalsName(name) }, ...isMe]
}
