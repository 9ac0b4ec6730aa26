/** Tells whether the tickets are issues at the configured code host. */
import type { ServiceConfig } from '../../protocol/config.ts'
import { CODE_HOST_FACTS, TRACKER_FACTS } from '../../protocol/drivers.ts'

/** A tracker without an address of its own uses the code host's. */
export function isTrackerAtCodeHost({ tracker, codehost }: ServiceConfig): boolean {
  if (TRACKER_FACTS[tracker.driver].listsRepositoryIssues !== true) return false
  if (tracker.driver !== codehost.driver) return false
  const { publicApiUrl } = CODE_HOST_FACTS[codehost.driver]
  const codeHostUrl = codehost.apiUrl ?? publicApiUrl
  return isSameAddress(tracker.apiUrl ?? codeHostUrl, codeHostUrl)
}

const isSameAddress = (a = '', b = ''): boolean => a.replace(/\/+$/, '') === b.replace(/\/+$/, '')
