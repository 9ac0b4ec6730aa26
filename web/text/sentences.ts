/** Makes sentences of the host's words, which begin small and have no end, because commands print them after a name. */
export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const withPeriod = (text: string): string => (/[.!?…]$/.test(text) ? text : `${text}.`)
