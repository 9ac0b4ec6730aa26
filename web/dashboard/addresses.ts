/** The address of everything that the dashboard shows, so that links are made in one place. */

export const runAddress = (id: string): string => `/runs/${encodeURIComponent(id)}`

export const attemptsAddress = (id: string): string => `${runAddress(id)}/attempts`

export const pullAddress = (repo: string, number: number): string =>
  `/pulls/${encodeURIComponent(repo)}/${number}`

export const ticketAddress = (id: string): string => `/tickets/${encodeURIComponent(id)}`

export const workerAddress = (id: string): string => `/fleet#worker-${encodeURIComponent(id)}`

export const settingAddress = (key: string): string => `/settings#${encodeURIComponent(key)}`
