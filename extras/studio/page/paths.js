// The path of a dataset in the API.

export const datasetPath = (dataset) => `/v1/datasets/${encodeURIComponent(dataset)}`;
